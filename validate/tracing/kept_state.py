"""What a run must not change, what it observes on copies, and errors that say nothing about samples."""

import copy
import functools
import inspect
import logging
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from wdsflow.text.shell import escape

from .meter import TraceRun

Note = Callable[[Exception, bool], None]  # the swallowed error; whether the stage continues
Handler = Callable[..., Any]


def with_handler(stage: Any, note: Note) -> Any:
    """Return a stage whose handler also reports to ``note`` which errors it swallows.

    It knows webdataset's curried filters, ``functools.partial``, functions with a ``handler`` parameter, and objects
    with a ``handler`` attribute. ``stage`` itself stays unchanged; it is returned if it has no handler.
    """
    if callable(getattr(stage, "f", None)) and isinstance(getattr(stage, "kw", None), dict):
        found = _bound(stage.f, (None, *stage.args), stage.kw)
        if found is None:
            return stage
        twin = copy.copy(stage)
        twin.args, twin.kw = _replaced(stage.args, stage.kw, found, note, skip=1)
        return twin
    if isinstance(stage, functools.partial):
        found = _bound(stage.func, (*stage.args, None), stage.keywords)
        if found is None:
            return stage
        args, keywords = _replaced(stage.args, stage.keywords, found, note, skip=0)
        return functools.partial(stage.func, *args, **keywords)
    if inspect.isroutine(stage):
        found = _bound(stage, (None,), {})
        return stage if found is None else functools.partial(stage, handler=_listening(found[0], note))
    handler = getattr(stage, "handler", None)
    if callable(handler) and "handler" in getattr(stage, "__dict__", {}):
        twin = copy.copy(stage)
        twin.handler = _listening(handler, note)
        return twin
    return stage


def continues(stage: Any) -> bool:
    """Return whether a stage of webdataset drops the samples for which its code raises an error, and goes on.

    That is known of handlers whose names end as those of webdataset do, such as ``log_and_continue`` of OpenCLIP.
    """
    found = None
    if callable(getattr(stage, "f", None)) and isinstance(getattr(stage, "kw", None), dict):
        found = _bound(stage.f, (None, *stage.args), stage.kw)
    ours = str(getattr(getattr(stage, "f", None), "__module__", "")).startswith("webdataset.")
    return ours and found is not None and str(getattr(found[0], "__name__", "")).endswith("_and_continue")


def _bound(function: Any, args: tuple[Any, ...], kw: dict[str, Any]) -> tuple[Handler, int] | None:
    """The handler that a call would use, and its position among the positional parameters."""
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kw)
    except (TypeError, ValueError):
        return None
    if "handler" not in signature.parameters:
        return None
    handler = bound.arguments.get("handler", signature.parameters["handler"].default)
    return (handler, list(signature.parameters).index("handler")) if callable(handler) else None


def _replaced(
    args: tuple[Any, ...], kw: dict[str, Any], found: tuple[Handler, int], note: Note, skip: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    handler, position = found
    place = position - skip
    if "handler" not in kw and 0 <= place < len(args) and args[place] is handler:
        return (*args[:place], _listening(handler, note), *args[place + 1 :]), kw
    return args, {**kw, "handler": _listening(handler, note)}


def _listening(handler: Handler, note: Note) -> Handler:
    def listen(error: Exception, *rest: Any, **kw: Any) -> Any:
        verdict = handler(error, *rest, **kw)  # raises if the handler passes the error on
        note(error, bool(verdict))
        return verdict

    return listen


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
