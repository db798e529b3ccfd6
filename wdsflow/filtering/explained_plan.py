"""The plan of a filter in words: the order of its terms and scores with measured costs, and the same question in SQL."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from wdsflow.expressions.evaluator import Evaluator
from wdsflow.expressions.expression import Expression, Term
from wdsflow.expressions.ledger_sql import ledger_query
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.decider import Decider
from wdsflow.filtering.deciding.row_values import results
from wdsflow.filtering.ledger.sample_table import SampleTable
from wdsflow.stages.pipeline import table
from wdsflow.text.shell import escape

# Characters of a term.
_WIDEST = 60
_NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Pilot:
    """Measurements on some samples, for which every score of a predicate was computed.

    ``seconds`` is the cost of each score per sample. ``passed`` counts the samples that passed
    exactly these terms, a bit for each term in the order of ``terms``; it determines the exact cost
    of any order. A sample passes a term that is not false: an unknown term drops no sample.
    ``unmeasured``: scores that were not computed, as they need a model. ``several``: scores of
    which some sample has several values. ``stored``: scores that are taken from ledgers.
    """

    terms: Sequence[Term]
    seconds: Mapping[ScoreCall, float]
    passed: Mapping[int, int]
    unmeasured: frozenset[ScoreCall] = frozenset()
    several: tuple[ScoreCall, ...] = ()
    stored: frozenset[ScoreCall] = frozenset()

    @property
    def samples(self) -> int:
        """How many samples were measured."""
        return sum(self.passed.values())

    def reaching(self, terms: Iterable[Term]) -> float:
        """Return the share of samples that pass all of some terms, and reach the next one."""
        mask = sum(1 << self.terms.index(term) for term in terms)
        passed = sum(count for bits, count in self.passed.items() if bits & mask == mask)
        return passed / max(self.samples, 1)


def pilot_of(
    expression: Expression,
    samples: SampleTable,
    seconds: Mapping[ScoreCall, float],
    unmeasured: Iterable[ScoreCall] = (),
    stored: frozenset[ScoreCall] = frozenset(),
) -> Pilot:
    """Return the measurements, given samples with the values of all measured scores."""
    bits = [0] * len(samples.rows)
    for number, term in enumerate(expression.terms):
        answers = results(Evaluator(replace(expression, terms=(term,))), samples, samples.rows)
        for index, result in enumerate(answers):
            if result is not False:
                bits[index] |= 1 << number
    several = (
        call for call in expression.scores if list in set(map(type, samples.columns[call].values()))
    )
    return Pilot(
        expression.terms,
        dict(seconds),
        dict(Counter(bits)),
        frozenset(unmeasured),
        tuple(several),
        stored,
    )


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
        tier = _dearest(decider.expression, calls)
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


def sql_of(
    expression: Expression,
    ledgers: str,
    columns: Mapping[ScoreCall, str],
    *,
    unknown_keeps: bool,
    several: Collection[ScoreCall] = (),
) -> str:
    """Return the query for the keys of the samples that a predicate keeps, for anybody's DuckDB.

    Args:
        expression: the predicate.
        ledgers: the files, such as ``out/.wdsflow/ledger/*.parquet``.
        columns: the name of each score's column.
        unknown_keeps: whether samples are kept for which the predicate is unknown.
        several: the scores of which some sample has several values.
    """
    return ledger_query(expression, ledgers, columns, several, unknown_keeps=unknown_keeps)


def _dearest(expression: Expression, calls: Collection[ScoreCall]) -> str:
    order = ("header", "text", "pixels", "model")
    tiers = {expression.facts[call.name].tier for call in calls}
    return max(
        tiers, key=lambda tier: order.index(tier) if tier in order else len(order), default="-"
    )


def _time(seconds: float) -> str:
    """Return a time with three digits and its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
