"""The typed tree of an expression.

It is printed in one canonical form, which Python parses to the same tree.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from .score_call import Constant, Kind, ScoreCall, spelled

# Start and end in the text of the user.
Span: TypeAlias = tuple[int, int]

# Levels of a tree. Each costs a few frames of Python's
# stack where the tree is built and translated.
DEEPEST = 50

ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "%"})
OVER_ITEMS = ("any", "all", "min", "max", "mean")

# How tightly an operator binds: an operand that binds less tightly needs parentheses.
_CHOICE, _OR, _AND, _NOT, _COMPARE, _ADD, _MULTIPLY, _UNARY, _ATOM = range(9)


@dataclass(frozen=True)
class Literal:
    """A constant."""

    items: ClassVar[tuple["Node", ...]] = ()

    value: Constant
    span: Span = field(default=(0, 0), compare=False)

    @property
    def kind(self) -> Kind:
        """The type of the constant."""
        if isinstance(self.value, bool):
            return "boolean"
        return "text" if isinstance(self.value, str) else "number"


@dataclass(frozen=True)
class ScoreValue:
    """The value of a score."""

    items: ClassVar[tuple["Node", ...]] = ()

    call: ScoreCall
    kind: Kind
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True)
class Compare:
    """A chain of comparisons, ``low <= x < high``: each holds between neighbours."""

    kind: ClassVar[Kind] = "boolean"

    signs: tuple[str, ...]
    items: tuple["Node", ...]
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True)
class Membership:
    """Whether a value, the only item, is one of several constants."""

    kind: ClassVar[Kind] = "boolean"

    items: tuple["Node", ...]
    options: tuple[Constant, ...]
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True)
class Operation:
    """An operation on other nodes: a function of ``FUNCTIONS``, or one of these.

    ``+ - * / // %`` of two numbers as Python computes them with floats, and "neg" of one; "and",
    "or", "not"; "is None", whether a value is missing; "if" of a condition and two values; "any"
    and "all" of a condition, and "min", "max" and "mean" of a number, over the images or captions
    of a sample.
    """

    name: str
    items: tuple["Node", ...]
    kind: Kind = "boolean"
    span: Span = field(default=(0, 0), compare=False)


Node: TypeAlias = Literal | ScoreValue | Compare | Membership | Operation


def nodes_of(node: Node) -> Iterator[Node]:
    """Yield a node and all below it, from left to right."""
    yield node
    for item in node.items:
        yield from nodes_of(item)


def calls_of(node: Node) -> tuple[ScoreCall, ...]:
    """Return the scores of a tree, each once, from left to right."""
    values = (child for child in nodes_of(node) if isinstance(child, ScoreValue))
    return tuple(dict.fromkeys(value.call for value in values))


def printed(node: Node, tightness: int = _CHOICE) -> str:
    """Return the canonical text of a tree.

    It is in parentheses if it binds less tightly than required.
    """
    text, node_tightness = _print(node)
    return f"({text})" if node_tightness < tightness else text


def printed_term(node: Node) -> str:
    """Return the canonical text of a tree as an operand of ``and``."""
    return printed(node, _NOT)


def _print(node: Node) -> tuple[str, int]:
    """Return the text of a node without parentheses, and how tightly it binds."""
    match node:
        case Literal(value):
            return spelled(value), _UNARY if spelled(value).startswith("-") else _ATOM
        case ScoreValue(call):
            return str(call), _ATOM
        case Compare(signs, (first, *others)):
            links = [
                f" {sign} {printed(item, _ADD)}" for sign, item in zip(signs, others, strict=True)
            ]
            return printed(first, _ADD) + "".join(links), _COMPARE
        case Membership() | Operation("contains" | "is None"):
            return _relation(node, negated=False), _COMPARE
        case Operation("not", (Membership() | Operation("contains" | "is None") as relation,)):
            return _relation(relation, negated=True), _COMPARE
        case Operation("not", (item,)):
            return f"not {printed(item, _NOT)}", _NOT
        case Operation("neg", (item,)):
            return f"-{printed(item, _UNARY)}", _UNARY
        case Operation("if", (condition, value, other)):
            return (
                f"{printed(value, _OR)} if {printed(condition, _OR)} else {printed(other)}",
                _CHOICE,
            )
        case Operation("and" | "or" as word, items):
            tightness = _AND if word == "and" else _OR
            return f" {word} ".join(printed(item, tightness + 1) for item in items), tightness
        case Operation(sign, (left, right)) if sign in ARITHMETIC:
            tightness = _ADD if sign in {"+", "-"} else _MULTIPLY
            return f"{printed(left, tightness)} {sign} {printed(right, tightness + 1)}", tightness
        case Operation(name, items):
            return f"{name}({', '.join(map(printed, items))})", _ATOM
    raise AssertionError(node)


def _relation(node: Node, *, negated: bool) -> str:
    """Return the text of a test that Python negates by a word in its middle."""
    is_in = "not in" if negated else "in"
    match node:
        case Membership((item,), options):
            return f"{printed(item, _ADD)} {is_in} {spelled(options)}"
        case Operation("contains", (text, part)):
            return f"{printed(part, _ADD)} {is_in} {printed(text, _ADD)}"
        case Operation("is None", (item,)):
            return f"{printed(item, _ADD)} is {'not ' if negated else ''}None"
    raise AssertionError(node)
