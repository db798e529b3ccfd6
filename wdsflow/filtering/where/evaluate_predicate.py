"""Three-valued evaluation: true, false or unknown; pending while scores are missing; and scores that may still decide.

The basic law: a result from some of the values is either PENDING or the result from all values, including the reason of
an unknown. The order in which scores are computed therefore affects the work, never the result. `and` and `or`
are Kleene's: false and unknown is false. Everything else needs all of its operands.

A score of a sample with several images or texts has one value for each. A condition over it is tested for each, and
holds if it holds for all; any(...) needs only one. Two such scores in one condition are compared entry by entry.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias

from wdsflow.expressions.expression import Expression
from wdsflow.expressions.score_call import Constant, Kind, ScoreCall
from wdsflow.expressions.tree import Compare, Literal, Membership, Node, Operation, ScoreValue, calls_of, printed_term

from .text_functions import FUNCTIONS
from .values import PENDING, Many, Pending, Result, Unknown, Value, Values

Lookup: TypeAlias = Mapping[ScoreCall, object]
Run: TypeAlias = Callable[[Lookup], Result]
Seek: TypeAlias = Callable[[Lookup], list[ScoreCall]]
Apply: TypeAlias = Callable[..., bool | int | float | str]

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
_APPLIED: dict[str, Apply] = {
    **FUNCTIONS,
    **SIGNS,
    "neg": operator.neg,
    "not": operator.not_,
}
KINDS: dict[Kind, tuple[type, ...]] = {"number": (int, float), "boolean": (bool,), "text": (str,)}
_NOT_A_NUMBER = Unknown("not-a-number")
_NULL = Unknown("null")
_EMPTY = Unknown("nothing-to-score")


def entry(value: object, kind: Kind) -> Constant | Unknown:
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
    if isinstance(value, Pending):
        return PENDING
    if isinstance(value, (list, tuple)) and not isinstance(value, Unknown):
        entries = Many(entry(item, kind) for item in value)
        return entries if len(entries) > 1 else entries[0] if entries else _EMPTY
    return entry(value, kind)


def spread(function: Apply, values: list[Result]) -> Result:
    """Apply a function to single values, entry by entry where there are several, unless one of them is unknown."""
    if PENDING in values:
        return PENDING
    if any(value.__class__ is Many for value in values):
        unknown = next((value for value in values if isinstance(value, Unknown)), None)
        rows = _rows(values) if unknown is None else unknown
        return rows if isinstance(rows, Unknown) else Many(_apply(function, row) for row in rows)
    return _apply(function, values)


def _apply(function: Apply, values: Iterable[Result]) -> Constant | Unknown:
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


def _rows(values: list[Result]) -> list[tuple[Constant | Unknown, ...]] | Unknown:
    """Return the entries in parallel; a single value is repeated for each."""
    lengths = [len(value) for value in values if isinstance(value, Many)]
    if len(set(lengths)) > 1:
        return Unknown("different-counts", f"{' and '.join(map(str, lengths))} values side by side")
    columns = (value if isinstance(value, Many) else (value,) * lengths[0] for value in values)
    return list(zip(*columns, strict=True))


def kleene(values: list[Result], decisive: bool) -> Result:
    """Return the conjunction (``decisive`` is False) or the disjunction (True) of conditions."""
    if any(value is decisive for value in values):
        return decisive
    if PENDING in values:
        return PENDING
    if any(value.__class__ is Many for value in values):
        rows = _rows(values)
        return rows if isinstance(rows, Unknown) else Many(fold(row, decisive) for row in rows)
    return next((value for value in values if value.__class__ is Unknown), not decisive)


def fold(entries: Sequence[Constant | Unknown], decisive: bool) -> Constant | Unknown:
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
    unknown = next((item for item in value if isinstance(item, Unknown)), None)
    if unknown is not None:
        return unknown
    if how == "mean":
        return _apply(lambda *numbers: sum(numbers) / len(numbers), value)
    return min(value) if how == "min" else max(value)  # numbers: the parser accepts no others


def _choice(condition: Result, value: Result, other: Result) -> Result:
    """Return one of two values, entry by entry where there are several."""
    if condition is True or condition is False:
        return value if condition else other
    if isinstance(condition, Unknown):
        return condition
    if PENDING in (condition, value, other):
        return PENDING
    rows = _rows([condition, value, other])
    if isinstance(rows, Unknown):
        return rows
    return Many(test if isinstance(test, Unknown) else one if test else two for test, one, two in rows)


def _is_null(value: Result) -> Result:
    if isinstance(value, Many):
        return Many(isinstance(item, Unknown) for item in value)
    return PENDING if value is PENDING else isinstance(value, Unknown)


def _links(signs: Sequence[str], operands: list[Result]) -> list[Result]:
    """Return the results of a chain's comparisons: ``a < b < c`` is ``a < b and b < c``, with one ``b``."""
    pairs = zip(signs, operands, operands[1:], strict=False)
    return [spread(SIGNS[sign], [left, right]) for sign, left, right in pairs]


def runner(node: Node) -> Run:
    """Return a function from values to the result of a tree."""
    match node:
        case Literal(value):
            return lambda values: value
        case ScoreValue(call, kind):
            return lambda values: result_of(values.get(call, PENDING), kind)
        case Compare((sign,), (ScoreValue(call, kind), Literal(value))):
            return _bound(SIGNS[sign], call, kind, value)
    runs = [runner(item) for item in node.items]
    match node:
        case Compare(signs) if len(signs) > 1:
            return lambda values: kleene(_links(signs, [run(values) for run in runs]), decisive=False)
        case Operation("and" | "or" as word):
            return lambda values: kleene([run(values) for run in runs], decisive=word == "or")
        case Operation("any" | "all" as how):
            return lambda values: over(runs[0](values), decisive=how == "any")
        case Operation("mean" | "min" | "max" as how):
            return lambda values: _reduce(how, runs[0](values))
        case Operation("is None"):
            return lambda values: _is_null(runs[0](values))
        case Operation("if"):
            return lambda values: _choice(*(run(values) for run in runs))
        case Membership(_, options):
            function: Apply = frozenset(options).__contains__
        case Operation(name):
            function = _APPLIED[name]
        case Compare(signs):
            function = SIGNS[signs[0]]
    return lambda values: spread(function, [run(values) for run in runs])


def _bound(test: Apply, call: ScoreCall, kind: Kind, bound: Constant) -> Run:
    """Return the function for a score and a constant, the most frequent condition: several times as fast for one value."""
    kinds = KINDS[kind]

    def run(values: Lookup) -> Result:
        value = values.get(call, PENDING)
        if value.__class__ in kinds and value == value:  # noqa: PLR0124 (the test for NaN)
            return test(value, bound)
        return spread(test, [result_of(value, kind), bound])

    return run


def seeker(node: Node) -> Seek:
    """Return a function from values to the missing scores that may still decide; for a tree whose result is pending.

    Below `and` and `or`, decided parts need no more scores. All other nodes need everything below them.
    """
    if isinstance(node, ScoreValue):
        call = node.call
        return lambda values: [] if call in values else [call]
    below = [(runner(item), seeker(item)) for item in node.items]
    match node:
        case Operation("and" | "or"):
            return lambda values: [call for run, seek in below if run(values) is PENDING for call in seek(values)]
        case Compare(signs) if len(signs) > 1:

            def seek_links(values: Lookup) -> list[ScoreCall]:
                links = _links(signs, [run(values) for run, _ in below])
                ends = {end for at, link in enumerate(links) if link is PENDING for end in (at, at + 1)}
                return [call for end in sorted(ends) for call in below[end][1](values)]

            return seek_links
    return lambda values: [call for _, seek in below for call in seek(values)]


@dataclass(frozen=True)
class Term:
    """A top-level conjunct. ``text`` is the user's text, ``str()`` the canonical form; equal trees are equal.

    ``place`` is where it begins and ends in the whole predicate.
    """

    text: str = field(compare=False)
    node: Node
    place: tuple[int, int] = field(default=(0, 0), compare=False)

    def __str__(self) -> str:
        return self.spelled

    @cached_property
    def spelled(self) -> str:
        """The canonical form."""
        return printed_term(self.node)

    @cached_property
    def calls(self) -> tuple[ScoreCall, ...]:
        """The scores of the term, each once, in the order of the text."""
        return tuple(dict.fromkeys(calls_of(self.node)))

    @cached_property
    def run(self) -> Run:
        """The function from values to a result; several entries are not yet folded into one."""
        return runner(self.node)

    @cached_property
    def seek(self) -> Seek:
        """The function from values to the missing scores that may still decide the term."""
        return seeker(self.node)

    def result(self, values: Values) -> Result:
        """Return True, False, an Unknown, or PENDING. A condition over several entries must hold for all."""
        return over(self.run(values), decisive=False)


class Judgement(NamedTuple):
    """The judgement of a predicate on a sample.

    ``keep`` is True, False, or None if it is not known. ``term`` is the deciding term: the first false one, or the
    first unknown one. ``unknown`` is the reason why it will never be known; None while missing scores may still decide.
    """

    keep: bool | None
    term: Term | None = None
    unknown: Unknown | None = None

    @property
    def settled(self) -> bool:
        """Whether no further score can change it."""
        return self.keep is not None or self.unknown is not None


KEEP = Judgement(keep=True)
OPEN = Judgement(keep=None)


def judge(terms: tuple[Term, ...], values: Values) -> Judgement:
    """Judge by terms in an order, which affects only which false or unknown term is named."""
    results = [term.result(values) for term in terms]
    if False in results:
        return Judgement(keep=False, term=terms[results.index(False)])
    return OPEN if PENDING in results else _without_false(terms, results)


def _without_false(terms: tuple[Term, ...], results: Sequence[Result]) -> Judgement:
    """Return the judgement by results without false or pending ones."""
    unknown = ((term, result) for term, result in zip(terms, results, strict=True) if isinstance(result, Unknown))
    return next((Judgement(None, *each) for each in unknown), KEEP)


@dataclass(frozen=True)
class Where:
    """A predicate. ``str()`` is its canonical form, which parses to an equal one."""

    expression: Expression
    terms: tuple[Term, ...] = field(compare=False)
    tiers: tuple[tuple[ScoreCall, str], ...] = field(compare=False)

    def __str__(self) -> str:
        return str(self.expression)

    @property
    def calls(self) -> tuple[ScoreCall, ...]:
        """The scores of the predicate, each once, in the order of the text."""
        return tuple(call for call, _ in self.tiers)

    def judge(self, values: Values) -> Judgement:
        """Judge a sample by the values computed so far; missing scores are yet to be computed."""
        return judge(self.terms, values)


class Order:
    """Terms in an order of work, and for each score its place among the scores.

    ``drive`` gives the same result as judging all terms after each score, but judges only terms that it affects.
    """

    def __init__(self, terms: tuple[Term, ...], rank: Mapping[ScoreCall, int]) -> None:
        self.terms, self.rank = terms, rank
        self._drop = [Judgement(keep=False, term=term) for term in terms]
        self._singles = [(at, term.calls[0] if len(term.calls) == 1 else None) for at, term in enumerate(terms)]
        self._before = [term.result({}) for term in terms]  # constants alone may decide
        self._all_hold: list[Result] = [True] * len(terms)
        steps = [(at, term.run, self._drop[at]) for at, term in enumerate(terms)]
        calls = dict.fromkeys(call for term in terms for call in term.calls)
        self._touched = {call: [step for step in steps if call in terms[step[0]].calls] for call in calls}

    def drive(
        self, compute: Callable[[ScoreCall], Value | Unknown | Pending]
    ) -> tuple[Judgement, dict[ScoreCall, Value | Unknown]]:
        """Judge a sample; return the judgement and the values that were computed for it.

        ``compute`` returns the value of a score or an Unknown; PENDING leaves the sample open.
        """
        values: dict[ScoreCall, Value | Unknown] = {}
        results = self._before.copy()
        if False in results:
            return self._drop[results.index(False)], values
        for at, single in self._singles:
            while results[at] is PENDING:
                call = single or min(self.terms[at].seek(values), key=self.rank.__getitem__)
                value = compute(call)
                if value is PENDING:
                    return OPEN, values
                values[call] = value
                for other, run, drop in self._touched[call]:
                    if results[other] is PENDING:
                        result = run(values)
                        if result.__class__ is Many:
                            result = over(result, decisive=False)
                        if result is False:
                            return drop, values
                        results[other] = result
        return KEEP if results == self._all_hold else _without_false(self.terms, results), values

    def next_needed(self, values: Values) -> ScoreCall | None:
        """Return the score to compute next, or None if no other could change the outcome."""
        if judge(self.terms, values).settled:
            return None
        term = next(term for term in self.terms if term.result(values) is PENDING)
        return min(term.seek(values), key=self.rank.__getitem__)

    def settle(self, values: Values) -> Judgement:
        """Return the judgement of this order, looking at values only in its own order.

        The same values give the same deciding term whether scores were computed individually, all at once, or read from a
        ledger that has more of them. If the order needs a missing score, the known ones may still decide; otherwise it
        is open.
        """
        judgement, _ = self.drive(lambda call: values.get(call, PENDING))
        return judgement if judgement.settled else judge(self.terms, values)
