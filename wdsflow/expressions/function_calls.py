"""Calls of functions.

``lower(caption)`` takes a value, ``any(width > 200)`` the items of a sample.
"""

from wdsflow.text.words import how_many

from .functions import FUNCTIONS
from .patterns import check_pattern
from .syntax import ExpressionText
from .tree import Literal, Node, Operation, Span
from .typing_rules import need_kind, need_number, unfinished_fold_error


def function_call(
    source: ExpressionText, name: str, arguments: list[Node], span: Span
) -> Operation:
    """Return the call of a function in ``FUNCTIONS``.

    Raises ExpressionError if the arguments do not fit.
    """
    function = FUNCTIONS[name]
    examples = ("caption", "'text'") if function.takes[0] == "text" else ("width",)
    example = ", ".join(examples[: len(function.takes)])
    usage = f"write {name}({example})"
    if len(arguments) != len(function.takes):
        count = how_many(len(function.takes), "value")
        raise source.error(span, f"{name} takes {count}, not {len(arguments)}", usage)
    for kind, argument in zip(function.takes, arguments, strict=True):
        need_kind(source, argument, kind, name, usage)
    if name == "matches":
        _, pattern = arguments
        _check_pattern(source, pattern)
    return Operation(name, tuple(arguments), function.kind, span)


def _check_pattern(source: ExpressionText, node: Node) -> None:
    if not isinstance(node, Literal) or not isinstance(node.value, str):
        detail = "the regular expression of matches must be a constant"
        raise source.error(node.span, detail, "write matches(caption, r'...')")
    problem = check_pattern(node.value)
    if problem:
        hint = "the syntax is that of RE2, without look-around and back-references"
        raise source.error(node.span, f"not a regular expression: {problem}", hint)


def fold_call(source: ExpressionText, name: str, arguments: list[Node], span: Span) -> Operation:
    """Return any, all, min, max or mean over the images or captions of a sample.

    Raises ExpressionError.
    """
    if len(arguments) != 1:
        detail = f"{name} takes 1 value, not {len(arguments)}"
        hint = (
            "it combines the images or captions of one sample; join conditions with `and` or `or`"
        )
        raise source.error(span, detail, hint)
    (item,) = arguments
    if name in {"min", "max", "mean"}:
        need_number(source, item, f"{name}()")
        return Operation(name, (item,), "number", span)
    if item.kind != "boolean":
        raise unfinished_fold_error(source, name, item)
    return Operation(name, (item,), "boolean", span)
