"""Which types may be combined, and what to write if they do not fit."""

from .errors import ExpressionError
from .score_call import Kind
from .syntax import ExpressionText
from .tree import Literal, Node, Operation

_IN_WORDS: dict[str, str] = {"number": "a number", "boolean": "a condition", "text": "a text"}


def kind_in_words(kind: Kind) -> str:
    """Return a type as messages name it.

    >>> kind_in_words("boolean")
    'a condition'
    """
    return _IN_WORDS[kind]


def need_condition(source: ExpressionText, node: Node, subject: str) -> None:
    """Raise ExpressionError unless a node is a condition.

    ``subject`` is what takes one: "`not` takes".
    """
    if node.kind == "boolean":
        return
    example = (
        f"{source.quoted(node.span)} >= 1"
        if node.kind == "number"
        else f"{source.quoted(node.span)} == 'text'"
    )
    detail = f"{subject} a condition, but {source.quoted(node.span)} is {_IN_WORDS[node.kind]}"
    raise source.error(node.span, detail, f"compare it, as in {example}")


def need_number(source: ExpressionText, node: Node, sign: str) -> None:
    """Raise ExpressionError unless a node is a number; ``sign`` is what takes one."""
    if node.kind == "number":
        return
    hint = "length(...) and words(...) turn a text into a number" if node.kind == "text" else ""
    raise source.error(
        node.span,
        f"{sign} takes numbers, but {source.quoted(node.span)} is {_IN_WORDS[node.kind]}",
        hint,
    )


def need_kind(source: ExpressionText, node: Node, kind: Kind, name: str, usage: str) -> None:
    """Raise ExpressionError unless an argument of a function has a type."""
    if node.kind != kind:
        detail = f"{name} takes {_IN_WORDS[kind]} here, but {source.quoted(node.span)} is {_IN_WORDS[node.kind]}"
        raise source.error(node.span, detail, usage if kind == "text" else "")


def need_same_kind(source: ExpressionText, left: Node, right: Node) -> None:
    """Raise ExpressionError unless two nodes have the same type."""
    if left.kind != right.kind:
        span = (left.span[0], max(left.span[1], right.span[1]))
        detail = (
            f"{source.quoted(left.span)} is {_IN_WORDS[left.kind]},"
            f" but {source.quoted(right.span)} is {_IN_WORDS[right.kind]}"
        )
        raise source.error(span, detail, _instead(source, left, right))


def unfinished_fold_error(source: ExpressionText, how: str, node: Node) -> ExpressionError:
    """Return the error about ``any(x)`` or ``all(x)`` if x is not a condition.

    ``node`` is x.
    """
    test = "== 'text'" if node.kind == "text" else "> 0"
    example = f"{how}({source.quoted(node.span)} {test})"
    return source.error(
        node.span, f"{how}(...) needs a condition or a comparison", f"write it as {example}"
    )


def needless_comparison_hint(source: ExpressionText, node: Node) -> str:
    """Return the hint about a condition that is compared."""
    if isinstance(node, Literal):
        return "leave the comparison out: write `duplicate` or `not duplicate`"
    quoted = source.quoted(node.span)
    return f"write `{quoted}` or `not {quoted}` without a comparison"


def _instead(source: ExpressionText, left: Node, right: Node) -> str:
    """Return what to write instead of a comparison of two types."""
    for node, other in ((left, right), (right, left)):
        if node.kind == "boolean":
            return needless_comparison_hint(source, node)
        if isinstance(node, Literal) and isinstance(node.value, str):
            plain = node.value.strip()
            if plain.replace(".", "", 1).isdigit():
                return f"write {plain} without quotes"
            return f"compare {source.quoted(other.span)} with a number"
    text, number = (left, right) if left.kind == "text" else (right, left)
    length = f"length({source.quoted(text.span)}) for its characters"
    if isinstance(number, Literal):
        return f"write '{source.quoted(number.span)}' with quotes, or {length}"
    return f"write {length}"


def is_operation(node: Node, name: str) -> bool:
    """Return whether a node is an operation of a name."""
    return isinstance(node, Operation) and node.name == name
