"""Lines of the user's code about a loader.

They define it, make it, seed it, or set something on it.
"""

import inspect
import re
from collections.abc import Iterator
from types import FunctionType

from ...tracing.errors import own_line
from ...tracing.pipeline_stages import is_loader, is_pipeline
from .loader_parts import parts

# Patterns of lines. The name of the method is to be filled in.
DEFINES = r"\s*(?:async )?def {}\b"
SEEDS = r"(?!\s*def\b)[^#]*(?:\b(?:Random|RandomState|default_rng|Generator)|seed\w*)\("
# Names, separated by "|", are to be filled in.
SETS_GLOBAL = r"(?!\s*global\b)[^#]*\b({})\b"
_CLASS = r"\s*class "
_CALLS = r"[^#]*\b{}\("
_ASSIGNS = r"[^#(]*\.{}\s*(?:,[^=()]*|:[^=]*)?=(?!=)"


def line_in(loader: object, user_object: object, pattern: str) -> str:
    """Return the user's line about a loader that begins like a pattern.

    If there is none, returns the call that makes the loader, or its class.

    Args:
        loader: of the user; the functions and classes of all its parts are searched.
        user_object: the function or class that the user named.
        pattern: a regular expression.
    """
    loader_parts = [part for _, part in parts(loader)]
    sources: dict[object, None] = {}
    for part in loader_parts:
        sources[part if isinstance(part, FunctionType) else type(part)] = None
    for source in sources:
        line = _line_like(source, pattern)
        if line:
            return line
    line = _call_line(loader, loader_parts, user_object)
    if line:
        return line
    for source in sources:
        line = _line_like(source, _CLASS)
        if line:
            return line
    return defining_line(user_object, None, "")


def _call_line(loader: object, loader_parts: list[object], user_object: object) -> str:
    """Return the line where the user's function creates a loader.

    It may call the class of the loader, or that of a part that reads.
    """
    classes: list[type] = []
    for part in loader_parts:
        if is_pipeline(part) or is_loader(part) or part is loader:
            classes += type(part).__mro__
    # The parts that are deepest inside are made first.
    for kind in reversed(classes):
        line = _line_like(user_object, _CALLS.format(kind.__name__))
        if line:
            return line
    return ""


def defining_line(thing: object, owner: object, name: str) -> str:
    """Return the line of a function, or the one that assigns an attribute.

    Returns "" if neither is in the user's code.

    Args:
        thing: a function, a generator, or the value of the attribute.
        owner: the object with the attribute.
        name: of the attribute.
    """
    code = getattr(thing, "__code__", None) or getattr(thing, "gi_code", None)
    if code is not None:
        return own_line(code.co_filename, code.co_firstlineno)
    if "<locals>" in type(thing).__qualname__:
        return _line_like(type(thing), _CLASS)
    return _line_like(type(owner), _ASSIGNS.format(re.escape(name)))


def _line_like(source: object, pattern: str) -> str:
    """Return the first line of a user's function or class that begins like a pattern.

    The base classes of a class are searched too.
    """
    for base in getattr(source, "__mro__", (source,)):
        for file, number, line in _user_lines(base):
            if re.match(pattern, line):
                return own_line(file, number)
    return ""


def _user_lines(source: object) -> Iterator[tuple[str, int, str]]:
    """Yield file, number and text of the lines of a function or class.

    Yields nothing if it is not the user's, or has no file.
    """
    try:
        file = inspect.getsourcefile(source) or ""  # type: ignore[arg-type]
        if not own_line(file, 1):
            return
        lines, first = inspect.getsourcelines(source)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return
    for number, line in enumerate(lines, first):
        yield file, number, line
