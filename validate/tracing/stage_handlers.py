"""Stages with a handler that also reports which errors it swallows."""

import copy
import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from .pipeline_stages import Call, named_arguments, positional_arguments

# Called with the swallowed error, and whether the stage continues.
Note = Callable[[Exception, bool], object]
# Of webdataset: it raises the error again, or returns whether the stage continues.
Handler = Callable[..., object]


class _HandledCall(NamedTuple):
    """A stage that is called with a handler."""

    handler: Handler
    # Runs the stage with the handler that is its first argument.
    run: Call


def with_handler(stage: object, note: Note) -> object:
    """Return a stage whose handler also reports to ``note`` which errors it swallows.

    It knows webdataset's curried filters, ``functools.partial``, functions with a ``handler``
    parameter, and objects with a ``handler`` attribute. ``stage`` itself stays unchanged; it is
    returned if it has no handler.
    """

    def listen(handler: Handler, error: Exception, *rest: object, **options: object) -> object:
        # Raises if the handler passes the error on.
        continues = handler(error, *rest, **options)
        note(error, bool(continues))
        return continues

    handled = _handled_call(stage)
    if handled is not None:
        return partial(handled.run, partial(listen, handled.handler))
    attribute = vars(stage).get("handler") if hasattr(stage, "__dict__") else None
    if not callable(attribute) or inspect.isroutine(stage):
        return stage
    stage_copy = copy.copy(stage)
    setattr(stage_copy, "handler", partial(listen, attribute))  # noqa: B010 - any object may have one
    return stage_copy


def _handled_call(stage: object) -> _HandledCall | None:
    """Return the handler of a curried filter of webdataset, a partial or a function.

    None if it has none.
    """
    function: object = getattr(stage, "f", None)
    # Before and after the source.
    before: tuple[object, ...] = ()
    after = positional_arguments(stage)
    options = named_arguments(stage)
    if isinstance(stage, partial):
        function = stage.func
        before = stage.args
        after = ()
        options = stage.keywords
    elif inspect.isroutine(stage):
        function = stage
    elif not callable(function) or not hasattr(stage, "kw"):
        return None
    try:
        signature = inspect.signature(function)
        # In place of the source.
        bound = signature.bind(*before, None, *after, **options)
    except (TypeError, ValueError):
        return None
    if "handler" not in signature.parameters:
        return None
    handler = bound.arguments.get("handler", signature.parameters["handler"].default)
    if not callable(handler):
        return None

    def run(other_handler: Handler, *source: object) -> Iterable[object]:
        bound = signature.bind(*before, *source, *after, **options)
        bound.arguments["handler"] = other_handler
        output: Iterable[object] = function(*bound.args, **bound.kwargs)
        return output

    return _HandledCall(handler, run)
