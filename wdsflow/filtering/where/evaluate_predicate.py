"""Three-valued evaluation: true, false or unknown; pending while scores are missing. And which scores may still decide.

The basic law: a result from some of the values is either PENDING or the result from all values, including the reason of
an unknown. The order in which scores are computed therefore decides what is computed, never the result. `and` and `or`
are Kleene's: false and unknown is false. Everything else needs all of its operands.

A score of a sample with several images or texts has one value for each. A condition over it is tested for each, and
holds if it holds for all; any(...) needs only one. Two such scores in one condition are compared entry by entry.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from .tree import (
    And,
    Apply,
    Arithmetic,
    Compare,
    IsNull,
    Literal,
    Membership,
    NameRef,
    Negate,
    Node,
    Not,
    Or,
    Quantified,
    Reduce,
    children,
)
from .values import FUNCTIONS, PENDING, Call, Kind, Many, Pending, Result, Scalar, Unknown

Lookup: TypeAlias = Mapping[Call, object]
Run: TypeAlias = Callable[[Lookup], Result]

SIGNS: dict[str, Callable[..., bool | int | float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
KINDS: dict[Kind, tuple[type, ...]] = {"number": (int, float), "boolean": (bool,), "text": (str,)}
_NOT_A_NUMBER = Unknown("not-a-number")
_NULL = Unknown("null")
_EMPTY = Unknown("nothing-to-score")


def entry(value: object, kind: Kind) -> Scalar | Unknown:
    """Return one value for the evaluation: a value of another type is unknown."""
    if isinstance(value, (bool, int, float, str)) and type(value) in KINDS[kind]:
        return _NOT_A_NUMBER if value != value else value  # noqa: PLR0124 (the test for NaN)
    if value is None:
        return _NULL
    if isinstance(value, Unknown):
        return value
    item = getattr(value, "item", None)  # of numpy's scalars
    if item is not None and not getattr(value, "shape", ()) and type(plain := item()) in KINDS[kind]:
        return entry(plain, kind)
    return Unknown("wrong-kind", f"a {type(value).__name__} instead of a {kind}")


def result_of(value: object, kind: Kind) -> Result:
    """Return a score's value for the evaluation. An empty list is unknown: a missing value must never mean keep."""
    if value.__class__ in KINDS[kind] and value == value:  # noqa: PLR0124 (the test for NaN)
        return value  # type: ignore[return-value]
    if isinstance(value, Pending):
        return PENDING
    if isinstance(value, (list, tuple)) and not isinstance(value, Unknown):
        if not value:
            return _EMPTY
        entries = Many(entry(item, kind) for item in value)
        return entries[0] if len(entries) == 1 else entries
    return entry(value, kind)


def spread(function: Callable[..., Scalar], values: list[Result]) -> Result:
    """Apply a function to single values, entry by entry where there are several, unless one of them is unknown."""
    several = False
    unknown: Unknown | None = None
    for value in values:
        if value is PENDING:
            return PENDING
        if isinstance(value, Unknown):
            unknown = unknown or value
        elif value.__class__ is Many:
            several = True
    if unknown is not None:
        return unknown
    if not several:
        return _apply(function, values)
    rows = _rows(values)
    return rows if isinstance(rows, Unknown) else Many(_apply(function, row) for row in rows)


def _apply(function: Callable[..., Scalar], values: Iterable[Result]) -> Scalar | Unknown:
    for value in values:
        if isinstance(value, Unknown):
            return value
    try:
        made = function(*values)
    except ZeroDivisionError:
        return Unknown("division-by-zero")
    except OverflowError:
        return Unknown("overflow")
    return _NOT_A_NUMBER if made != made else made  # noqa: PLR0124 (the test for NaN)


def _rows(values: list[Result]) -> list[tuple[Any, ...]] | Unknown:
    """Return the entries in parallel; a single value is repeated for each."""
    lengths = [len(value) for value in values if isinstance(value, Many)]
    if len(set(lengths)) > 1:
        return Unknown("different-counts", f"{' and '.join(map(str, lengths))} values side by side")
    count = lengths[0]
    return list(zip(*(value if isinstance(value, Many) else (value,) * count for value in values), strict=True))


def kleene(values: list[Result], decisive: bool) -> Result:
    """Return the conjunction (``decisive`` is False) or the disjunction (True) of conditions."""
    several = pending = False
    unknown = None
    for value in values:
        if value is decisive:
            return decisive
        if value is PENDING:
            pending = True
        elif value.__class__ is Many:
            several = True
        elif unknown is None and value.__class__ is Unknown:
            unknown = value
    if pending:
        return PENDING
    if several:
        rows = _rows(values)
        return rows if isinstance(rows, Unknown) else Many(fold(row, decisive) for row in rows)
    return (not decisive) if unknown is None else unknown


def fold(entries: Sequence[Scalar | Unknown], decisive: bool) -> Scalar | Unknown:
    """Return whether all (``decisive`` is False) or any (True) of the entries hold."""
    if decisive in entries:
        return decisive
    return next((item for item in entries if item.__class__ is Unknown), not decisive)


def over(value: Result, decisive: bool) -> Result:
    """Return a condition over several entries as one: all of them, or any of them."""
    return fold(value, decisive) if isinstance(value, Many) else value


def _reduce(how: str, value: Result) -> Result:
    if not isinstance(value, Many):
        return value
    numbers: list[float] = []
    for item in value:
        if isinstance(item, Unknown):
            return item
        assert not isinstance(item, str)  # the parser admits numbers only
        numbers.append(item)
    if how == "mean":
        return spread(lambda: sum(numbers) / len(numbers), [])
    return min(numbers) if how == "min" else max(numbers)


def _is_null(value: Result) -> Result:
    if value is PENDING:
        return PENDING
    if isinstance(value, Many):
        return Many(isinstance(item, Unknown) for item in value)
    return isinstance(value, Unknown)


def _chain(node: Compare) -> Run:
    runs = [runner(operand) for operand in node.operands]
    return lambda values: kleene(links(node, [run(values) for run in runs]), decisive=False)


def links(node: Compare, operands: list[Result]) -> list[Result]:
    """Return the results of a chain's comparisons: ``a < b < c`` is ``a < b and b < c``, with one ``b``."""
    pairs = zip(node.signs, operands, operands[1:], strict=False)
    return [spread(SIGNS[sign], [left, right]) for sign, left, right in pairs]


def runner(node: Node) -> Run:
    """Return a function from values to the result of a tree."""
    match node:
        case Literal(value):
            return lambda values: value
        case NameRef(call, kind):
            return lambda values: result_of(values.get(call, PENDING), kind)
        case Negate(body):
            return _spread(operator.neg, (body,))
        case Arithmetic(sign, left, right):
            return _spread(SIGNS[sign], (left, right))
        case Apply(function, arguments):
            return _spread(FUNCTIONS[function].run, arguments)
        case Compare((sign,), (NameRef(call, kind), Literal(value))):
            return _bound(SIGNS[sign], call, kind, value)
        case Compare(signs, operands):
            return _spread(SIGNS[signs[0]], operands) if len(signs) == 1 else _chain(node)
        case Membership(body, options):
            return _spread(frozenset(options).__contains__, (body,))
        case Reduce(how, body):
            inner = runner(body)
            return lambda values: _reduce(how, inner(values))
        case IsNull(body):
            inner = runner(body)
            return lambda values: _is_null(inner(values))
        case Not(body):
            return _spread(operator.not_, (body,))
        case And(items) | Or(items):
            runs, decisive = [runner(item) for item in items], isinstance(node, Or)
            return lambda values: kleene([run(values) for run in runs], decisive)
        case Quantified(how, body):
            inner = runner(body)
            return lambda values: over(inner(values), how == "any")


def _bound(test: Callable[..., bool | int | float], call: Call, kind: Kind, bound: Scalar) -> Run:
    """Return the function for a score and a constant, the most frequent condition: several times as fast for one value."""
    kinds = KINDS[kind]

    def run(values: Lookup) -> Result:
        value = values.get(call, PENDING)
        if value.__class__ in kinds and value == value:  # noqa: PLR0124 (the test for NaN)
            return test(value, bound)
        return spread(test, [result_of(value, kind), bound])

    return run


def _spread(function: Callable[..., Scalar], bodies: tuple[Node, ...]) -> Run:
    runs = [runner(body) for body in bodies]
    return lambda values: spread(function, [run(values) for run in runs])


Seek: TypeAlias = Callable[[Lookup], list[Call]]


def seeker(node: Node) -> Seek:
    """Return a function from values to the missing scores that may still decide; for a tree whose result is pending.

    Below `and` and `or`, decided parts need no more scores. All other nodes need everything below them.
    """
    if isinstance(node, NameRef):
        call = node.call
        return lambda values: [] if call in values else [call]
    if isinstance(node, Compare):
        return _seek_chain(node)
    below = [seeker(child) for child in children(node)]
    if isinstance(node, (And, Or)):
        runs = [runner(child) for child in children(node)]
        pairs = list(zip(runs, below, strict=True))
        return lambda values: [call for run, seek in pairs if run(values) is PENDING for call in seek(values)]
    if len(below) == 1:
        return below[0]
    return lambda values: [call for seek in below for call in seek(values)]


def _seek_chain(node: Compare) -> Seek:
    runs = [runner(operand) for operand in node.operands]
    seeks = [seeker(operand) for operand in node.operands]

    def seek(values: Lookup) -> list[Call]:
        made = links(node, [run(values) for run in runs])
        open_ends = {end for at, link in enumerate(made) if link is PENDING for end in (at, at + 1)}
        return [call for end in sorted(open_ends) for call in seeks[end](values)]

    return seek
