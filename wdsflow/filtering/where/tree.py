"""The tree of a predicate: typed, without places in the text, printed in one canonical form."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from .values import Call, Kind, Scalar, spelled

DEEPEST = 50  # levels of a tree; each costs a few frames of Python's stack, where it is built and where it is evaluated

_OR, _AND, _NOT, _COMPARE, _ADD, _MULTIPLY, _UNARY, _ATOM = range(8)


@dataclass(frozen=True)
class Literal:
    """A constant."""

    items: ClassVar[tuple["Node", ...]] = ()

    value: Scalar

    @property
    def kind(self) -> Kind:
        """The kind of the constant."""
        return "boolean" if isinstance(self.value, bool) else "text" if isinstance(self.value, str) else "number"


@dataclass(frozen=True)
class NameRef:
    """The value of a score."""

    items: ClassVar[tuple["Node", ...]] = ()

    call: Call
    kind: Kind


@dataclass(frozen=True)
class Compare:
    """A chain of comparisons, ``low <= x < high``; each holds between neighbours."""

    kind: ClassVar[Kind] = "boolean"

    signs: tuple[str, ...]
    items: tuple["Node", ...]


@dataclass(frozen=True)
class Membership:
    """Whether a value, the only item, is one of a list of constants."""

    kind: ClassVar[Kind] = "boolean"

    items: tuple["Node", ...]
    options: tuple[Scalar, ...]


@dataclass(frozen=True)
class Op:
    """An operation on other nodes: a function of ``FUNCTIONS``, or one of these.

    "+", "-", "*", "/", "//", "%" of two numbers, with Python's meaning, and "neg" of one; "and", "or", "not", and
    "is null", whether a value could not be computed; "mean", "min", "max" of the numbers of a sample's images or texts,
    and "any", "all" of a condition over them.
    """

    name: str
    items: tuple["Node", ...]
    kind: Kind = "boolean"


Node: TypeAlias = Literal | NameRef | Compare | Membership | Op


def nodes_of(node: Node) -> Iterator[Node]:
    """Yield a node and all below it, from left to right."""
    yield node
    for item in node.items:
        yield from nodes_of(item)


def calls_of(node: Node) -> Iterator[Call]:
    """Yield the scores of a tree, from left to right, some more than once."""
    return (each.call for each in nodes_of(node) if isinstance(each, NameRef))


def printed(node: Node, floor: int = _OR) -> str:
    """Return the canonical text of a tree; parsing it gives the same tree."""
    text, level = _print(node)
    return f"({text})" if level < floor else text


def printed_term(node: Node) -> str:
    """Return the canonical text of a tree as an operand of `and`."""
    return printed(node, _NOT)


def _print(node: Node, negation: str = "") -> tuple[str, int]:
    match node:
        case Literal(value):
            negative = not isinstance(value, (bool, str)) and (value < 0 or str(value).startswith("-"))
            return spelled(value), _UNARY if negative else _ATOM
        case NameRef(call):
            return str(call), _ATOM
        case Compare(signs, items):
            first, *others = (printed(item, _ADD) for item in items)
            return " ".join([first, *(f"{sign} {text}" for sign, text in zip(signs, others, strict=True))]), _COMPARE
        case Membership(items, options):
            return f"{printed(items[0], _ADD)} {negation}in ({', '.join(map(spelled, options))})", _COMPARE
        case Op("is null", (body,)):
            return f"{printed(body, _ADD)} is {negation}null", _COMPARE
        case Op("not", (Membership() | Op("is null") as body,)):
            return _print(body, "not ")
        case Op("not", (body,)):
            return f"not {printed(body, _NOT)}", _NOT
        case Op("neg", (body,)):
            return f"-{printed(body, _UNARY)}", _UNARY
        case Op("and" | "or" as word, items):
            level = _AND if word == "and" else _OR
            return f" {word} ".join(printed(item, level + 1) for item in items), level
        case Op("+" | "-" | "*" | "/" | "//" | "%" as sign, (left, right)):
            level = _ADD if sign in "+-" else _MULTIPLY
            return f"{printed(left, level)} {sign} {printed(right, level + 1)}", level
        case Op():
            return f"{node.name}({', '.join(map(printed, node.items))})", _ATOM
