"""Decides samples step by step: after each step of scores, those for which the predicate is known go no further.

A window of samples is decided by one query a step. The order of the steps is fixed by the predicate
alone, so a sample is decided by the same term whether its scores are computed now or come from a
ledger.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from itertools import compress
from typing import TypeAlias

from wdsflow.expressions.evaluator import Decisions, Evaluator
from wdsflow.expressions.expression import Expression, Term
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.expressions.steps import ScoreStep, steps_of
from wdsflow.filtering.ledger.sample_table import Judgement, Row, SampleTable

from .row_values import evaluate, reason

# Computes a score of some samples, and sets their values in its column; those that it leaves out
# are computed later.
Compute: TypeAlias = Callable[[ScoreCall, Sequence[Row]], None]


class Decider:
    """Decides by one predicate.

    Args:
        expression: the predicate.
        among_kept: the scores that compare only samples that all other terms keep.
    """

    def __init__(self, expression: Expression, among_kept: Collection[ScoreCall] = ()) -> None:
        self.expression = expression
        self.evaluator = Evaluator(expression)
        self.terms: Sequence[Term] = self.evaluator.terms
        self.steps: list[ScoreStep] = steps_of(expression, among_kept)

    @cached_property
    def _start(self) -> tuple[Judgement | None, tuple[ScoreCall, ...]]:
        """What is known before any score is computed, the same for all samples: the result, or what is lacking first."""
        row = Row(0, "", 0, 0)
        first = self.steps[0].scores
        decisions = evaluate(self.evaluator, SampleTable(), [row], (), first)
        self._settle([row], decisions)
        return row.judgement, tuple(call for call in first if decisions.lacks[call][0])

    @cached_property
    def first_calls(self) -> tuple[ScoreCall, ...]:
        """The scores that are needed first, for every sample."""
        return self._start[1] if self.steps else ()

    def advance(
        self, samples: SampleTable, rows: Sequence[Row], compute: Compute | None = None
    ) -> None:
        """Decide some samples as far as possible: set ``judgement``, or note in ``needed`` which scores they need next.

        ``compute``: computes scores; without it, those that the columns have must do.
        """
        open_rows = [row for row in rows if row.judgement is None]
        for row in open_rows:
            samples.needed.pop(row.number, None)
        computed: list[ScoreCall] = []
        for step in self.steps:
            if not open_rows:
                return
            if computed:
                needing = self._decide(samples, open_rows, computed, step.scores)
            else:
                needing = self._decide_first(open_rows)
            waiting = _wait(samples, needing, compute)
            open_rows = [
                row for row in open_rows if row.judgement is None and row.number not in waiting
            ]
            computed += step.scores
        if open_rows:
            self._decide_last(samples, open_rows)

    def _decide_first(self, rows: Sequence[Row]) -> dict[ScoreCall, Sequence[Row]]:
        """Decide samples before any score is computed, and return the scores of the first step that they need."""
        judgement, calls = self._start
        for row in rows:
            row.judgement = judgement
        return dict.fromkeys(calls, rows)

    def _decide(
        self,
        samples: SampleTable,
        rows: Sequence[Row],
        computed: Sequence[ScoreCall],
        scores: Sequence[ScoreCall],
    ) -> dict[ScoreCall, Sequence[Row]]:
        """Decide samples by the scores of earlier steps, and return each score of the next with those that need it."""
        decisions = evaluate(self.evaluator, samples, rows, computed, scores)
        self._settle(rows, decisions)
        return {call: list(compress(rows, decisions.lacks[call].tolist())) for call in scores}

    def _decide_last(self, samples: SampleTable, rows: Sequence[Row]) -> None:
        """Decide samples when all their scores are computed: what is not known now never will be."""
        scores = self.expression.scores
        self._settle(rows, evaluate(self.evaluator, samples, rows, scores))
        unknown = [row for row in rows if row.judgement is None]
        if not unknown:
            return
        # Which values are missing is asked for these alone: they are few.
        decisions = evaluate(self.evaluator, samples, unknown, scores, scores)
        for index, row in enumerate(unknown):
            term = self.terms[decisions.term[index]]
            row.judgement = Judgement(
                None, term, reason(self.evaluator, samples, decisions, index, row)
            )

    def _settle(self, rows: Sequence[Row], decisions: Decisions) -> None:
        """Note the samples for which the predicate is true or false, and the term by which it is false."""
        kept = Judgement(keep=True)
        for row in compress(rows, decisions.keep.tolist()):
            row.judgement = kept
        for number, term in enumerate(self.terms):
            dropped = Judgement(keep=False, term=term)
            for row in compress(rows, (decisions.drop & (decisions.term == number)).tolist()):
                row.judgement = dropped


def _wait(
    samples: SampleTable, needing: Mapping[ScoreCall, Sequence[Row]], compute: Compute | None
) -> dict[int, list[ScoreCall]]:
    """Compute scores, and return those that samples still need, by their numbers."""
    waiting: dict[int, list[ScoreCall]] = {}
    for call, rows in needing.items():
        column = samples.columns[call]
        missing = [row for row in rows if row.number not in column]
        if missing and compute is not None:
            compute(call, missing)
            missing = [row for row in missing if row.number not in column]
        for row in missing:
            waiting.setdefault(row.number, []).append(call)
    samples.needed.update(waiting)
    return waiting
