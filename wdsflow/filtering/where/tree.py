"""The tree of a predicate: typed, without places in the text, printed in one canonical form."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from .values import FUNCTIONS, Call, Kind, Scalar, spelled

DEEPEST = 50  # levels of a tree; each costs a few frames of Python's stack, where it is built and where it is evaluated

_OR, _AND, _NOT, _COMPARE, _ADD, _MULTIPLY, _UNARY, _ATOM = range(8)


@dataclass(frozen=True)
class Literal:
    """A constant."""

    value: Scalar

    @property
    def kind(self) -> Kind:
        """The kind of the constant."""
        return "boolean" if isinstance(self.value, bool) else "text" if isinstance(self.value, str) else "number"


@dataclass(frozen=True)
class NameRef:
    """The value of a score."""

    call: Call
    kind: Kind


@dataclass(frozen=True)
class Negate:
    """The negative of a number."""

    body: "Node"
    kind: Kind = field(default="number", init=False)


@dataclass(frozen=True)
class Arithmetic:
    """Two numbers and one of + - * / // %, with Python's meaning."""

    sign: str
    left: "Node"
    right: "Node"
    kind: Kind = field(default="number", init=False)


@dataclass(frozen=True)
class Apply:
    """A function of single values; all but the first argument of a text function are constants."""

    function: str
    arguments: tuple["Node", ...]

    @property
    def kind(self) -> Kind:
        """The kind of the function's result."""
        return FUNCTIONS[self.function].kind


@dataclass(frozen=True)
class Reduce:
    """The mean, min or max over the images or texts of a sample."""

    how: str
    body: "Node"
    kind: Kind = field(default="number", init=False)


@dataclass(frozen=True)
class Compare:
    """A chain of comparisons, ``low <= x < high``; each holds between neighbours."""

    signs: tuple[str, ...]
    operands: tuple["Node", ...]
    kind: Kind = field(default="boolean", init=False)


@dataclass(frozen=True)
class Membership:
    """Whether a value is one of a list of constants."""

    body: "Node"
    options: tuple[Scalar, ...]
    kind: Kind = field(default="boolean", init=False)


@dataclass(frozen=True)
class IsNull:
    """Whether a value could not be computed."""

    body: "Node"
    kind: Kind = field(default="boolean", init=False)


@dataclass(frozen=True)
class Not:
    """Negation."""

    body: "Node"
    kind: Kind = field(default="boolean", init=False)


@dataclass(frozen=True)
class And:
    """Conjunction of two or more."""

    items: tuple["Node", ...]
    kind: Kind = field(default="boolean", init=False)


@dataclass(frozen=True)
class Or:
    """Disjunction of two or more."""

    items: tuple["Node", ...]
    kind: Kind = field(default="boolean", init=False)


@dataclass(frozen=True)
class Quantified:
    """Whether a condition holds for any or for all of the images or texts of a sample."""

    how: str
    body: "Node"
    kind: Kind = field(default="boolean", init=False)


Node: TypeAlias = (
    Literal
    | NameRef
    | Negate
    | Arithmetic
    | Apply
    | Reduce
    | Compare
    | Membership
    | IsNull
    | Not
    | And
    | Or
    | Quantified
)


def children(node: Node) -> tuple[Node, ...]:
    """Return the direct child nodes of a node."""
    match node:
        case Literal() | NameRef():
            return ()
        case Arithmetic():
            return node.left, node.right
        case Apply():
            return node.arguments
        case Compare():
            return node.operands
        case And() | Or():
            return node.items
        case _:
            return (node.body,)


def nodes_of(node: Node) -> Iterator[Node]:
    """Yield a node and all below it, from left to right."""
    yield node
    for child in children(node):
        yield from nodes_of(child)


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


def _print(node: Node) -> tuple[str, int]:
    match node:
        case Literal(value):
            negative = not isinstance(value, (bool, str)) and (value < 0 or str(value).startswith("-"))
            return spelled(value), _UNARY if negative else _ATOM
        case NameRef(call):
            return str(call), _ATOM
        case Negate(body):
            return f"-{printed(body, _UNARY)}", _UNARY
        case Arithmetic(sign, left, right):
            level = _ADD if sign in "+-" else _MULTIPLY
            return f"{printed(left, level)} {sign} {printed(right, level + 1)}", level
        case Apply(function, arguments):
            return f"{function}({', '.join(map(printed, arguments))})", _ATOM
        case Reduce(how, body) | Quantified(how, body):
            return f"{how}({printed(body)})", _ATOM
        case Compare(signs, operands):
            words = [
                word for pair in zip(("", *signs), operands, strict=True) for word in (pair[0], printed(pair[1], _ADD))
            ]
            return " ".join(words[1:]), _COMPARE
        case And(items):
            return " and ".join(printed(item, _NOT) for item in items), _AND
        case Or(items):
            return " or ".join(printed(item, _AND) for item in items), _OR
        case Not(Membership() | IsNull() as body):
            return _test(body, "not "), _COMPARE
        case Not(body):
            return f"not {printed(body, _NOT)}", _NOT
        case Membership() | IsNull():
            return _test(node, ""), _COMPARE


def _test(node: Membership | IsNull, negation: str) -> str:
    body = printed(node.body, _ADD)
    if isinstance(node, IsNull):
        return f"{body} is {negation}null"
    return f"{body} {negation}in ({', '.join(map(spelled, node.options))})"
