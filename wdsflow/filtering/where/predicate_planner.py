"""The order of terms: cheap scores first; scores that cannot decide are skipped.

Terms commute: a sample is kept if all are true, dropped if any is false, and quarantined otherwise. Their order
affects only the work, and which false term is named. A plan is fixed before the run, and ``settle`` names the term
at which this plan would have stopped, regardless of how many values are known.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.stages.pipeline import table
from wdsflow.text.shell import escape

from .evaluate_predicate import Order, Term, Where
from .values import Values

# Seconds per sample: only the order of magnitude matters.
TIER_SECONDS = {"header": 2e-5, "text": 5e-5, "pixels": 1e-2, "model": 1e-1}


@dataclass(frozen=True)
class PlanStep:
    """A term of the plan: the scores that it adds to those of the terms before it, and their total cost."""

    term: Term
    calls: tuple[ScoreCall, ...]
    cost: float


class Plan(Order):
    """The order of work for a predicate, step by step."""

    def __init__(self, where: Where, steps: tuple[PlanStep, ...], rank: Mapping[ScoreCall, int]) -> None:
        super().__init__(tuple(step.term for step in steps), rank)
        self.where, self.steps = where, steps


def plan(where: Where, *, last: Collection[ScoreCall] = ()) -> Plan:
    """Return the order of work for a predicate: terms by the cost of the scores that they add.

    Equals stay in the order of the text.

    Args:
        where: the predicate.
        last: scores that are only known at the end, such as duplicates over all shards.
    """
    tiers = dict(where.tiers)
    price = {call: TIER_SECONDS.get(tier, 1.0) for call, tier in tiers.items()}
    late = frozenset(last)
    position = {call: number for number, call in enumerate(where.calls)}
    order = sorted(where.calls, key=lambda call: (call in late, price[call], position[call]))
    rank = {call: number for number, call in enumerate(order)}
    remaining, known, steps = list(where.terms), set[ScoreCall](), list[PlanStep]()
    while remaining:
        options = []
        for term in remaining:
            calls = tuple(call for call in term.calls if call not in known)
            options.append(PlanStep(term, calls, sum(price[call] for call in calls)))
        best = min(options, key=lambda step: (not late.isdisjoint(step.calls), step.cost))
        steps.append(best)
        remaining.remove(best.term)
        known.update(best.calls)
    return Plan(where, tuple(steps), rank)


@dataclass(frozen=True)
class Pilot:
    """Measurements on some samples, for which every score of a predicate was computed.

    ``seconds`` is the cost of each score per sample. ``passed`` counts the samples that passed exactly these terms, a
    bit for each term in the order of the text; it determines the exact cost of any order. A sample passes a term that
    is not false: an unknown term drops no sample. ``unmeasured``: scores that were not computed, as they need a model.
    """

    where: Where
    seconds: Mapping[ScoreCall, float]
    passed: Mapping[int, int]
    unmeasured: frozenset[ScoreCall] = frozenset()

    @property
    def samples(self) -> int:
        """How many samples were measured."""
        return sum(self.passed.values())

    def reaching(self, terms: Iterable[Term]) -> float:
        """Return the share of samples that pass all of some terms, and reach the next one."""
        mask = sum(1 << self.where.terms.index(term) for term in terms)
        there = sum(count for bits, count in self.passed.items() if bits & mask == mask)
        return there / max(self.samples, 1)


def pilot_of(
    where: Where, rows: Iterable[Values], seconds: Mapping[ScoreCall, float], unmeasured: Iterable[ScoreCall] = ()
) -> Pilot:
    """Return the measurements, given the values of all measured scores for each sample."""
    passed: Counter[int] = Counter()
    for values in rows:
        bits = sum(1 << number for number, term in enumerate(where.terms) if term.result(values) is not False)
        passed[bits] += 1
    return Pilot(where, dict(seconds), dict(passed), frozenset(unmeasured))


_WIDEST = 60  # characters of a term
_NOT_MEASURED = "not measured"


def explain(plan: Plan, pilot: Pilot) -> str:
    """Return the plan as a table: one line per term, in order, and the average cost of a sample.

    "new scores" are those that no term above uses. "reached by" is the share of samples that no term above drops. What
    needs a model is not measured: such a term has no numbers, and those after it are bounds.
    """
    tiers = dict(plan.where.tiers)
    rows = [["", "term", "new scores", "tier", "a sample", "passed by", "reached by"]]
    average = everything = 0.0
    above: list[Term] = []
    at_most = ""
    for number, step in enumerate(plan.steps, 1):
        reached = pilot.reaching(above)
        seconds = sum(pilot.seconds.get(call, 0.0) for call in step.calls)
        everything += seconds
        average += seconds * reached
        above.append(step.term)
        names = escape(", ".join(map(str, step.calls)) or "-", limit=_WIDEST)
        term = escape(str(step.term), limit=_WIDEST)
        cost = _time(seconds) if step.calls else "-"
        passing = f"{pilot.reaching((step.term,)):.1%}"
        reaching = f"{at_most}{reached:.1%}"
        if not pilot.unmeasured.isdisjoint(step.term.calls):
            cost = passing = _NOT_MEASURED
            at_most = "at most "
        rows.append([str(number), term, names, _dearest(step.calls, tiers), cost, passing, reaching])
    last = (
        f"measured on {pilot.samples:,} samples; on average {_time(average)} per sample,"
        f" with every score for every sample {_time(everything)}; {at_most}{pilot.reaching(above):.1%} pass all terms"
    )
    if at_most:
        last += "\nscores by models are not measured here, and come in addition: they take most of the time of a run"
    return f"{table(rows, right={0, 4, 5, 6})}\n{last}"


def _dearest(calls: tuple[ScoreCall, ...], tiers: dict[ScoreCall, str]) -> str:
    order = ("header", "text", "pixels", "model")
    found = {tiers[call] for call in calls}
    return max(found, key=lambda tier: order.index(tier) if tier in order else len(order), default="-")


def _time(seconds: float) -> str:
    """Return a time with three digits and its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
