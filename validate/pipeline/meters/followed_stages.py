"""Stages through which samples can be followed by their number.

The code of such a stage is a library's: it passes each element on, or loses it.

A stage of webdataset such as ``map``, ``shuffle`` or ``batched`` gives one element for each that it
gets, or leaves it out. So what went in and came out can be counted. A generator of the user may
give one sample twice and leave out another: of such a stage numbers alone show nothing.
"""

from ...tracing.pipeline_stages import argument, bare_name, is_loader, module_of

# Their own code is known. OpenCLIP's stages are those of webdataset with other defaults.
_LIBRARIES = ("webdataset.", "open_clip.", "open_clip_train.")
# A function that makes a batch of samples, of which it leaves out none.
_COLLATION = ("webdataset.", "torch.", "builtins.")
# They read several datasets, whose stages are not seen.
_MIXERS = frozenset({"RandomMix", "RoundRobin"})
# They call a function of the user. That of a sample gives one element for it; that of a whole batch
# may do anything.
_CALLERS = frozenset({"map", "map_dict", "map_tuple"})


def passes_on(stage: object) -> bool:
    """Return whether a stage passes on or leaves out each element that it gets.

    It may also put elements together unchanged.
    """
    if is_loader(stage):
        return _is_of(stage.collate_fn, _COLLATION)
    if bare_name(stage) in _MIXERS:
        return False
    # Of a curried filter of webdataset, and of a partial.
    function = getattr(stage, "f", None) or getattr(stage, "func", None) or stage
    if not _is_of(function, _LIBRARIES):
        return False
    if bare_name(stage) != "batched":
        return True
    collation_function = argument(stage, "collation_fn", 1)
    return collation_function is None or _is_of(collation_function, _COLLATION)


def calls_function(stage: object) -> bool:
    """Return whether a stage calls a function of the user for each element."""
    return bare_name(stage) in _CALLERS


def _is_of(thing: object, modules: tuple[str, ...]) -> bool:
    return f"{module_of(thing)}.".startswith(modules)
