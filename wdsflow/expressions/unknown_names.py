"""Names that are neither scores nor functions, and what to write instead."""

from collections.abc import Iterable

from .errors import ExpressionError, nearest
from .foreign_syntax import PATTERN_HINT, PATTERN_WORDS, PYTHON_WORDS
from .functions import FUNCTIONS, OTHER_NAMES
from .syntax import ExpressionText
from .tree import OVER_ITEMS, Span

# What SQL and other languages call the constants of Python.
OTHER_CONSTANTS = {"true": "True", "false": "False", "null": "None", "none": "None", "nan": "None"}


def unknown_name_error(
    source: ExpressionText, name: str, span: Span, scores: Iterable[str]
) -> ExpressionError:
    """Return the error about a name. ``scores``: the names of those that an expression may have."""
    constant = OTHER_CONSTANTS.get(name.lower())
    if constant is not None:
        hint = f"write {constant}"
        if constant == "None":
            hint = "write `x is None` or `x is not None`"
        return source.error(span, f"{name} is not Python", hint)
    return source.error(span, f"no score is called {name[:60]!r}", _hint(name, scores))


def _hint(name: str, scores: Iterable[str]) -> str:
    functions = (*FUNCTIONS, *OVER_ITEMS)
    close = nearest(name, scores) or nearest(name, functions)
    if name in OTHER_NAMES:
        return f"write {OTHER_NAMES[name]}(...)"
    if name.lower() in PYTHON_WORDS:
        return f"write {name.lower()} in lower case"
    if close in functions:
        return f"{close} is a function: write {close}(...)"
    if name.lower() in PATTERN_WORDS:
        return PATTERN_HINT
    if close:
        return f"did you mean {close}?"
    return "all scores: wdsflow scores"
