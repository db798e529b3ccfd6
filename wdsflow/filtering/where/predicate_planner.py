"""The order of terms: cheap scores first, and none that cannot change the outcome.

Terms commute: a sample is kept if all are true, dropped if one is false, whatever the others are, and quarantined
otherwise. Their order therefore decides only what is computed, and which of several false terms is named. A plan is
fixed before the run, and `settle` names the term at which this plan would have stopped, however many values are known.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from wdsflow.filtering.where.language.tree import NameRef, Node, children
from wdsflow.filtering.where.language.values import PENDING, Call, Kind, Unknown, Value, Values

from .evaluate_predicate import KINDS
from .fast_path import fast_test
from .predicate import KEEP, OPEN, Judgement, Term, Where, judge

# Seconds per sample, without measurements: only the order of magnitude matters.
TIER_SECONDS = {"header": 2e-5, "text": 5e-5, "pixels": 1e-2, "model": 1e-1}
_UNMEASURED = 0.5  # share of samples that pass a term
_LEAST_DROPPED = 1e-3
V = TypeVar("V")
Found = dict[Call, Value | Unknown]


@dataclass(frozen=True)
class PlanStep:
    """A term of the plan: the scores that it adds to those of the terms before it, and their total cost."""

    term: Term
    calls: tuple[Call, ...]
    cost: float
    passing: float


@dataclass(frozen=True)
class Plan:
    """The order of terms, and for each call its place in the order of calls."""

    where: Where
    steps: tuple[PlanStep, ...]
    rank: Mapping[Call, int] = field(repr=False)

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The terms in the order of the plan."""
        return tuple(step.term for step in self.steps)

    def next_needed(self, values: Values) -> Call | None:
        """Return the score to compute next, or None if none is left that could change the outcome."""
        if judge(self.terms, values).settled:
            return None
        for term in self.terms:
            if term.result(values) is PENDING:
                return min(term.seek(values), key=self.rank.__getitem__)
        return None

    def settle(self, values: Values) -> Judgement:
        """Return the judgement of this plan, looking at values only in its own order.

        The same values give the same deciding term whether scores were computed one by one, all at once, or read from a
        ledger that has more of them. If the plan would ask for a score that is missing, what is there may still decide;
        it is open if not.
        """
        judgement, _ = self.drive(lambda call: values.get(call, PENDING))
        return judgement if judgement.settled else judge(self.terms, values)

    def drive(self, compute: Callable[[Call], Any]) -> tuple[Judgement, dict[Call, Value | Unknown]]:
        """Judge a sample, computing what is needed as it is needed; return the values with the judgement.

        ``compute`` returns the value of a score or an Unknown; PENDING leaves the sample open.
        """
        return self._driver(compute)

    def straight(
        self, ways: Mapping[Call, Callable[[V], Any]]
    ) -> "Callable[[V], tuple[Judgement | None, Found]] | None":
        """Return a quicker way to begin with samples of which nothing is known yet: see ``Driver``."""
        return self._driver.straight(ways)

    @cached_property
    def _driver(self) -> "Driver":
        return Driver(self.terms, self.rank)

    def __getstate__(self) -> dict[str, Any]:
        return {"where": self.where, "steps": self.steps, "rank": self.rank}


def plan(
    where: Where,
    cost: Mapping[Call, float] | None = None,
    passing: Mapping[Term, float] | None = None,
    *,
    last: Collection[Call] = (),
) -> Plan:
    """Return the order of work for a predicate.

    Args:
        where: the predicate.
        cost: seconds a sample of each score; by default what its tier costs, roughly.
        passing: the share of samples that a term does not drop. With it, terms go by cost / (1 - share), the order that
            is cheapest on average for independent terms; without, by cost. Equals stay in the order of the text.
        last: scores that are only known at the end, such as duplicates over all shards.
    """
    tiers = dict(where.tiers)
    price = {call: (cost or {}).get(call, TIER_SECONDS.get(tier, 1.0)) for call, tier in tiers.items()}
    late = frozenset(last)
    place = {call: at for at, call in enumerate(where.calls)}
    order = sorted(where.calls, key=lambda call: (call in late, price[call], place[call]))
    rank = {call: at for at, call in enumerate(order)}
    left, known, steps = list(where.terms), set[Call](), list[PlanStep]()
    while left:
        options = [_step(term, known, price, (passing or {}).get(term, _UNMEASURED)) for term in left]
        best = min(options, key=lambda step: (bool(late.intersection(step.calls)), _worth(step)))
        steps.append(best)
        left.remove(best.term)
        known.update(best.calls)
    return Plan(where, tuple(steps), rank)


def _step(term: Term, known: set[Call], price: Mapping[Call, float], passing: float) -> PlanStep:
    fresh = tuple(call for call in term.calls if call not in known)
    return PlanStep(term, fresh, sum(price[call] for call in fresh), passing)


def _worth(step: PlanStep) -> float:
    return step.cost / max(1 - step.passing, _LEAST_DROPPED)


class Driver:
    """Runs samples through terms in an order. It holds functions, so it is created where it is used, never pickled.

    The result is the same as judging all terms after each score; only terms that a new score affects are judged.
    """

    def __init__(self, terms: tuple[Term, ...], rank: Mapping[Call, int]) -> None:
        self._terms = terms
        self._drop = [Judgement(keep=False, term=term) for term in terms]
        self._single = [term.calls[0] if len(term.calls) == 1 else None for term in terms]
        self._rank = rank
        self._before = [term.result({}) for term in terms]  # constants alone may decide
        kinds = {call: KINDS[kind] for term in terms for call, kind in _kinds(term.node).items()}
        fast = [term.fast for term in terms]
        touched = {call: [at for at, term in enumerate(terms) if call in term.calls] for call in kinds}
        self._about = {call: (kinds[call], [(at, fast[at]) for at in touched[call]]) for call in kinds}

    def __call__(self, compute: Callable[[Call], Any]) -> tuple[Judgement, dict[Call, Value | Unknown]]:
        """Judge a sample; return the judgement and the values that were computed for it."""
        values: dict[Call, Value | Unknown] = {}
        results: list[Any] = self._before.copy()
        plain, about = True, self._about
        if False in results:
            return self._drop[results.index(False)], values
        for at, single in enumerate(self._single):
            while results[at] is PENDING:
                call = single or self._next(at, values)
                value = compute(call)
                if value is PENDING:
                    return OPEN, values
                values[call] = value
                kinds, touched = about[call]
                plain = plain and value.__class__ in kinds and value == value  # noqa: PLR0124 (NaN)
                for other, fast in touched:
                    if results[other] is PENDING:
                        try:
                            result = fast(values) if plain else self._terms[other].result(values)
                        except (KeyError, ArithmeticError):
                            result = self._terms[other].result(values)
                        results[other] = result
                        if result is False:
                            return self._drop[other], values
        for at, result in enumerate(results):
            if result is not True:
                return Judgement(None, self._terms[at], result), values
        return KEEP, values

    def straight(
        self, ways: Mapping[Call, Callable[[V], Any]]
    ) -> "Callable[[V], tuple[Judgement | None, Found]] | None":
        """Return a function that judges a sample without any values, as far as possible without choices.

        It returns the judgement, None if it is left open, and the values. It goes through the first terms, as long as
        each asks for one score that no term of several asks for, and that ``ways`` has; it stops where a value is not
        plain. None if not even the first term is like that. A way may raise whatever it likes.
        """
        several = {call for term in self._terms if len(term.calls) != 1 for call in term.calls}
        steps: dict[Call, tuple[tuple[type, ...], list[tuple[Callable[[Any], Any], Judgement]]]] = {}
        whole = all(result is PENDING for result in self._before)
        for single in self._single if whole else ():
            whole = single is not None and single in ways and single not in several
            if single is None or not whole:
                break
            touched = [(fast_test(self._terms[at].node, single), self._drop[at]) for at, _ in self._about[single][1]]
            steps[single] = self._about[single][0], touched
        if not steps:
            return None
        road, end = [(call, ways[call], *step) for call, step in steps.items()], KEEP if whole else None

        def run(view: V) -> tuple[Judgement | None, Found]:
            values: Found = {}
            for call, way, kinds, tests in road:
                values[call] = value = way(view)
                if value.__class__ not in kinds or value != value:  # noqa: PLR0124 (NaN)
                    return None, values
                try:
                    for test, drop in tests:
                        if not test(value):
                            return drop, values
                except (KeyError, ArithmeticError):
                    return None, values
            return end, values

        return run

    def _next(self, at: int, values: dict[Call, Any]) -> Call:
        return min(self._terms[at].seek(values), key=self._rank.__getitem__)


def _kinds(node: Node) -> dict[Call, Kind]:
    found: dict[Call, Kind] = {node.call: node.kind} if isinstance(node, NameRef) else {}
    for child in children(node):
        found.update(_kinds(child))
    return found
