"""Observe the error handlers of stages, on copies, without changing their decisions."""

import copy
import functools
import inspect
from collections.abc import Callable
from typing import Any

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
