"""The plan of a filter in words: the order of its terms and scores, with measured costs."""

from collections.abc import Collection

from wdsflow.expressions.expression import Expression, Term
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.decider import Decider
from wdsflow.stages.pipeline import table
from wdsflow.text.shell import escape

from .pilot import Pilot

# Characters of a term.
_WIDEST = 60
_NOT_MEASURED = "not measured"
# The cheapest first.
_TIERS = ("header", "text", "pixels", "model")


def explain(decider: Decider, pilot: Pilot) -> str:
    """Return the plan as a table: one line per term, in order, and the average cost of a sample; then the steps.

    "new scores" are those that no term above uses. "reached by" is the share of samples that no
    term above drops. What needs a model is not measured: such a term has no numbers, and those
    after it are bounds.
    """
    rows = [["", "term", "new scores", "tier", "a sample", "passed by", "reached by"]]
    average = everything = 0.0
    above: list[Term] = []
    used: set[ScoreCall] = set()
    at_most = ""
    for number, term in enumerate(decider.terms, 1):
        calls = [call for call in term.scores if call not in used]
        used.update(calls)
        reached = pilot.reaching(above)
        seconds = sum(pilot.seconds.get(call, 0.0) for call in calls)
        everything += seconds
        average += seconds * reached
        above.append(term)
        names = escape(", ".join(map(str, calls)) or "-", limit=_WIDEST)
        cost = _time(seconds) if calls else "-"
        if calls and pilot.stored.issuperset(calls):
            cost = "in ledger"
        passing = f"{pilot.reaching((term,)):.1%}"
        reaching = f"{at_most}{reached:.1%}"
        if not pilot.unmeasured.isdisjoint(term.scores):
            cost = passing = _NOT_MEASURED
            at_most = "at most "
        tier = _highest_tier(decider.expression, calls)
        rows.append(
            [str(number), escape(str(term), limit=_WIDEST), names, tier, cost, passing, reaching]
        )
    last = (
        f"measured on {pilot.samples:,} samples; on average {_time(average)} per sample,"
        f" with every score for every sample {_time(everything)}; {at_most}{pilot.reaching(above):.1%} pass all terms"
    )
    if at_most:
        last += "\nscores by models come in addition: they take most of the time of a run"
    return f"{table(rows, right={0, 4, 5, 6})}\n{last}\n{_steps(decider, pilot.stored)}"


def _steps(decider: Decider, stored: Collection[ScoreCall]) -> str:
    """Return the order in which scores are computed, with those that are taken from ledgers."""
    lines = ["order of work; each step is computed only for samples that those before leave open:"]
    for number, step in enumerate(decider.steps, 1):
        names = [
            escape(str(call), limit=_WIDEST) + " (in ledger)" * (call in stored)
            for call in step.scores
        ]
        lines.append(f"  {number}. {step.tier}: {', '.join(names)}")
    return "\n".join(lines) if decider.steps else "no score is computed"


def _highest_tier(expression: Expression, calls: Collection[ScoreCall]) -> str:
    """Return the most expensive tier of some scores; "-" if there are none."""
    tiers = {expression.facts[call.name].tier for call in calls}
    if not tiers:
        return "-"
    # Tiers of custom scores are unknown: they may cost anything.
    return max(tiers, key=lambda tier: _TIERS.index(tier) if tier in _TIERS else len(_TIERS))


def _time(seconds: float) -> str:
    """Return a time with three digits and its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
