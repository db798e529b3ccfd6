"""Decides samples step by step.

Samples that the scores of one step decide need no scores of the next step.

A window of samples is decided by one query a step. The order of the steps is fixed by the predicate
alone, so a sample is decided by the same term whether its scores are computed now or come from a
ledger.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import compress
from typing import TypeAlias

from wdsflow.expressions.evaluator import Decisions, Evaluator
from wdsflow.expressions.expression import Expression, Term
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.expressions.steps import ScoreStep
from wdsflow.filtering.ledger.sample_table import Judgement, LedgerRow, SampleTable

from .plan import FilterPlan
from .row_values import evaluate, unknown_result_reason

# Computes a score of some samples, and sets their values in its column; those that it leaves out
# are computed later.
Compute: TypeAlias = Callable[[ScoreCall, Sequence[LedgerRow]], None]


class Decider:
    """Decides by one predicate.

    Args:
        expression: the predicate.
        steps: its scores, in the order in which they are computed.
        terms: its terms, in the order in which a false one is named; by default that of an
            ``Evaluator``.
    """

    def __init__(
        self,
        expression: Expression,
        steps: Sequence[ScoreStep],
        terms: Sequence[Term] | None = None,
    ) -> None:
        self.expression = expression
        self.steps = steps
        self.evaluator = Evaluator(expression, terms)
        self.terms: Sequence[Term] = self.evaluator.terms

    @cached_property
    def _start(self) -> tuple[Judgement | None, tuple[ScoreCall, ...]]:
        """The result before any score is computed, and the first scores that samples need.

        They are the same for all samples.
        """
        row = LedgerRow(0, "", 0, 0)
        first = self.steps[0].scores
        decisions = evaluate(self.evaluator, SampleTable(), [row], (), first)
        self._judge([row], decisions)
        return row.judgement, tuple(call for call in first if decisions.missing[call][0])

    @cached_property
    def first_calls(self) -> tuple[ScoreCall, ...]:
        """The scores that are needed first, for every sample."""
        return self._start[1] if self.steps else ()

    def advance(
        self, samples: SampleTable, rows: Sequence[LedgerRow], compute: Compute | None = None
    ) -> None:
        """Decide some samples as far as possible.

        Sets ``judgement``, or in ``needed`` the scores that a sample needs next.

        ``compute``: computes scores; without it, only those in the columns are used.
        """
        open_rows = [row for row in rows if row.judgement is None]
        for row in open_rows:
            samples.needed.pop(row.number, None)
        computed: list[ScoreCall] = []
        for step in self.steps:
            if not open_rows:
                return
            if computed:
                rows_by_call = self._decide(samples, open_rows, computed, step.scores)
            else:
                rows_by_call = self._decide_first(open_rows)
            waiting = _compute_missing(samples, rows_by_call, compute)
            open_rows = [
                row for row in open_rows if row.judgement is None and row.number not in waiting
            ]
            computed += step.scores
        if open_rows:
            self._decide_last(samples, open_rows)

    def _decide_first(self, rows: Sequence[LedgerRow]) -> dict[ScoreCall, Sequence[LedgerRow]]:
        """Decide samples before any score is computed.

        Returns the scores of the first step that they need.
        """
        judgement, calls = self._start
        for row in rows:
            row.judgement = judgement
        return dict.fromkeys(calls, rows)

    def _decide(
        self,
        samples: SampleTable,
        rows: Sequence[LedgerRow],
        computed: Sequence[ScoreCall],
        scores: Sequence[ScoreCall],
    ) -> dict[ScoreCall, Sequence[LedgerRow]]:
        """Decide samples by the scores of earlier steps.

        Returns each score of the next step with the samples that need it.
        """
        decisions = evaluate(self.evaluator, samples, rows, computed, scores)
        self._judge(rows, decisions)
        return {call: list(compress(rows, decisions.missing[call].tolist())) for call in scores}

    def _decide_last(self, samples: SampleTable, rows: Sequence[LedgerRow]) -> None:
        """Decide samples whose scores are all computed.

        A result that is unknown now stays unknown.
        """
        scores = self.expression.scores
        self._judge(rows, evaluate(self.evaluator, samples, rows, scores))
        unknown = [row for row in rows if row.judgement is None]
        if not unknown:
            return
        # Which values are missing is queried for these alone: they are few.
        decisions = evaluate(self.evaluator, samples, unknown, scores, scores)
        for index, row in enumerate(unknown):
            term = self.terms[decisions.term[index]]
            row.judgement = Judgement(
                None, term, unknown_result_reason(self.evaluator, samples, decisions, index, row)
            )

    def _judge(self, rows: Sequence[LedgerRow], decisions: Decisions) -> None:
        """Set the judgement of samples for which the predicate is true, or false by a term."""
        kept = Judgement(keep=True)
        for row in compress(rows, decisions.keep.tolist()):
            row.judgement = kept
        for number, term in enumerate(self.terms):
            dropped = Judgement(keep=False, term=term)
            for row in compress(rows, (decisions.drop & (decisions.term == number)).tolist()):
                row.judgement = dropped


@lru_cache(maxsize=4)
def decider_of(plan: FilterPlan) -> Decider | None:
    """Return the decider of a plan, None without a predicate; cached per process."""
    if plan.expression is None:
        return None
    return Decider(plan.expression, plan.steps, plan.terms)


def _compute_missing(
    samples: SampleTable,
    rows_by_call: Mapping[ScoreCall, Sequence[LedgerRow]],
    compute: Compute | None,
) -> dict[int, list[ScoreCall]]:
    """Compute scores of the samples that need them.

    Returns the scores that samples still need, by the numbers of the samples.
    """
    waiting: dict[int, list[ScoreCall]] = {}
    for call, rows in rows_by_call.items():
        column = samples.columns[call]
        missing = [row for row in rows if row.number not in column]
        if missing and compute is not None:
            compute(call, missing)
            missing = [row for row in missing if row.number not in column]
        for row in missing:
            waiting.setdefault(row.number, []).append(call)
    samples.needed.update(waiting)
    return waiting
