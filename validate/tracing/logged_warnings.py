"""Counts the warnings that stages log while they run.

They suggest errors that a stage swallows without a handler.
"""

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from .trace_run import TraceRun


@contextmanager
def counting_warnings(run: TraceRun, thread: threading.Thread) -> Iterator[None]:
    """Count logs and warnings of a thread for the stage that runs at that time.

    Loggers and warnings are restored afterwards.
    """
    handler = _StageHandler(run, thread)
    show_before = warnings.showwarning

    def showwarning(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if threading.current_thread() is thread:
            run.stages[run.running].log(f"{category.__name__}: {message}")
        show_before(message, category, filename, lineno, file, line)

    root = logging.getLogger()
    root.addHandler(handler)
    warnings.showwarning = showwarning
    try:
        yield
    finally:
        root.removeHandler(handler)
        # Not if the user's code has replaced it meanwhile.
        if warnings.showwarning is showwarning:
            warnings.showwarning = show_before


class _StageHandler(logging.Handler):
    """Counts the records of one thread that are warnings or errors."""

    def __init__(self, run: TraceRun, thread: threading.Thread) -> None:
        super().__init__(logging.WARNING)
        self.run = run
        self.thread = thread

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread != self.thread.ident:
            return
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - a log call with wrong arguments must not end a run
            message = str(record.msg)
        self.run.stages[self.run.running].log(message)
