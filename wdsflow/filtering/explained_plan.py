"""The plan of a filter in words: the order of its terms and scores, with measured costs."""

from collections.abc import Collection, Iterable, Sequence

from wdsflow.expressions.expression import Expression, Term
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.decider import Decider
from wdsflow.stages.pipeline import format_table
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from .pilot import Pilot

# Characters of a term.
_WIDEST = 60
_NOT_MEASURED = "not measured"
# The cheapest first.
_TIERS = ("header", "text", "pixels", "model")


def explain(decider: Decider, pilot: Pilot) -> str:
    """Return the plan as a table.

    It has one line per term, in order, then the average cost of a sample, then the steps.

    "new scores" are those that no term above uses. "reached by" is the share of samples that no
    term above drops. What needs a model is not measured: such a term has no numbers, and those
    after it are bounds.
    """
    rows = [["", "term", "new scores", "tier", "a sample", "passed by", "reached by"]]
    # Seconds for a sample: on average, and if every score were computed for every sample.
    average = everything = 0.0
    above: list[Term] = []
    used: set[ScoreCall] = set()
    for number, term in enumerate(decider.terms, 1):
        new_scores = [call for call in term.scores if call not in used]
        used.update(new_scores)
        seconds = sum(pilot.seconds.get(call, 0.0) for call in new_scores)
        everything += seconds
        average += seconds * pilot.share_reaching(above)
        row = [
            str(number),
            escape(str(term), limit=_WIDEST),
            escape(", ".join(map(str, new_scores)) or "-", limit=_WIDEST),
            _highest_tier(decider.expression, new_scores),
            _cost(pilot, term, new_scores, seconds),
            _passed_by(pilot, term),
            _reached_by(pilot, above),
        ]
        rows.append(row)
        above.append(term)
    last = (
        f"measured on {how_many(pilot.samples, 'sample')}; on average {_time_text(average)} per sample,"
        f" with every score for every sample {_time_text(everything)}; {_reached_by(pilot, above)} pass all terms"
    )
    if _has_unmeasured(pilot, above):
        last += "\nscores by models come in addition: they take most of the time of a run"
    return f"{format_table(rows, right={0, 4, 5, 6})}\n{last}\n{_steps(decider, pilot.stored)}"


def _cost(pilot: Pilot, term: Term, new_scores: Collection[ScoreCall], seconds: float) -> str:
    """Return the cost of a term for a sample: that of the scores that no term above uses."""
    if _has_unmeasured(pilot, [term]):
        return _NOT_MEASURED
    if not new_scores:
        return "-"
    if pilot.stored.issuperset(new_scores):
        return "in ledger"
    return _time_text(seconds)


def _passed_by(pilot: Pilot, term: Term) -> str:
    """Return the share of all samples that a term lets pass."""
    if _has_unmeasured(pilot, [term]):
        return _NOT_MEASURED
    return f"{pilot.share_reaching([term]):.1%}"


def _reached_by(pilot: Pilot, above: Sequence[Term]) -> str:
    """Return the share of samples that no term above drops.

    It is a bound if one of these terms was not measured.
    """
    at_most = "at most " if _has_unmeasured(pilot, above) else ""
    return f"{at_most}{pilot.share_reaching(above):.1%}"


def _has_unmeasured(pilot: Pilot, terms: Iterable[Term]) -> bool:
    """Return whether a term has a score that was not measured, because it needs a model."""
    return any(not pilot.unmeasured.isdisjoint(term.scores) for term in terms)


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


def _time_text(seconds: float) -> str:
    """Return a time with three digits and its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
