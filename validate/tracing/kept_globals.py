"""Global state that a run must not change: loggers, warnings, random generators."""

import logging
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from wdsflow.text.escape import escape

from .meter import TraceRun


class _Ear(logging.Handler):
    """Counts the warnings that a stage logs while it runs: they suggest errors that it swallows without a handler."""

    def __init__(self, run: TraceRun, thread: threading.Thread) -> None:
        super().__init__(logging.WARNING)
        self.run, self.thread = run, thread

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self.thread.ident:
            try:
                note_log(self.run, record.getMessage())
            except Exception:  # noqa: BLE001 - a log call with wrong arguments is no reason to end a run
                note_log(self.run, str(record.msg))


def note_log(run: TraceRun, message: str) -> None:
    """Attribute a log line or warning to the running stage."""
    seen = run.seen[run.owner]
    seen.logged += 1
    seen.first_log = seen.first_log or escape(message, 200)


@contextmanager
def listening(run: TraceRun, thread: threading.Thread) -> Iterator[None]:
    """Count logs and warnings of ``thread``; restore loggers and warnings afterwards."""
    ear, show = _Ear(run, thread), warnings.showwarning

    def showwarning(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if threading.current_thread() is thread:
            note_log(run, f"{category.__name__}: {message}")
        show(message, category, filename, lineno, file, line)

    root = logging.getLogger()
    root.addHandler(ear)
    warnings.showwarning = showwarning
    try:
        yield
    finally:
        root.removeHandler(ear)
        if warnings.showwarning is showwarning:
            warnings.showwarning = show


@contextmanager
def same_random_state() -> Iterator[None]:
    """Restore the global random generators of Python, NumPy and torch."""
    undo: list[tuple[Callable[[Any], Any], Any]] = [(random.setstate, random.getstate())]
    if numpy := sys.modules.get("numpy"):
        undo.append((numpy.random.set_state, numpy.random.get_state()))
    if torch := sys.modules.get("torch"):
        undo.append((torch.set_rng_state, torch.get_rng_state()))
    try:
        yield
    finally:
        for restore, state in undo:
            restore(state)


def state_of_chance() -> list[object]:
    """Return the states of the global generators of Python, numpy and torch, as far as these are imported."""
    states: list[object] = [random.getstate()]
    if numpy := sys.modules.get("numpy"):
        states.append(str(numpy.random.get_state()))
    if torch := sys.modules.get("torch"):
        states.append(torch.get_rng_state().numpy().tobytes())
    return states
