"""Decides samples step by step: after each step of scores, those for which the predicate is known go no further.

A window of samples is decided by one query a step. The order of the steps is fixed by the predicate alone, so a sample
is decided by the same term whether its scores are computed now or come from a ledger.
"""

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from itertools import compress
from typing import TypeAlias

from wdsflow.expressions.evaluator import Decisions, Evaluator
from wdsflow.expressions.expression import Expression, Term
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.expressions.steps import ScoreStep, steps_of
from wdsflow.filtering.ledger.sample_table import Judgement, Row, SampleTable

from .row_values import evaluate, reason

# Computes a score of some samples, and sets their values in its column; those that it leaves out are computed later.
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

    def advance(self, samples: SampleTable, rows: Sequence[Row], compute: Compute | None = None) -> None:
        """Decide some samples as far as possible: set ``judgement``, or ``lacks``, the scores that are needed next.

        ``compute``: computes scores; without it, those that the columns have must do.
        """
        for number in range(len(self.steps) + 1):
            here = [row for row in rows if row.judgement is None and row.step == number]
            if not here:
                continue
            if number == len(self.steps):
                self._decide_last(samples, here)
            else:
                self._pass(samples, here, number, compute)

    def _pass(self, samples: SampleTable, rows: Sequence[Row], number: int, compute: Compute | None) -> None:
        """Decide samples by the scores of the steps before one, and compute those of this step for the others."""
        lacks: dict[int, list[ScoreCall]] = {}
        for call, needing in self._needs(samples, rows, number):
            column = samples.columns[call]
            lacking = [row for row in needing if row.number not in column]
            if lacking and compute is not None:
                compute(call, lacking)
                lacking = [row for row in lacking if row.number not in column]
            for row in lacking:
                lacks.setdefault(row.number, []).append(call)
        for row in rows:
            row.lacks = lacks.get(row.number, ())
            if not row.lacks:
                row.step = number + 1

    def _needs(self, samples: SampleTable, rows: Sequence[Row], number: int) -> list[tuple[ScoreCall, Sequence[Row]]]:
        """Decide samples, and return each score of a step with those of the others that it may decide."""
        if number == 0:
            judgement, calls = self._start
            for row in rows:
                row.judgement = judgement
            return [(call, rows) for call in calls]
        scores = self.steps[number].scores
        computed = [call for step in self.steps[:number] for call in step.scores]
        decisions = evaluate(self.evaluator, samples, rows, computed, scores)
        self._settle(rows, decisions)
        return [(call, list(compress(rows, decisions.lacks[call].tolist()))) for call in scores]

    def _decide_last(self, samples: SampleTable, rows: Sequence[Row]) -> None:
        """Decide samples when all their scores are computed: what is not known now never will be."""
        scores = self.expression.scores
        self._settle(rows, evaluate(self.evaluator, samples, rows, scores))
        unknown = [row for row in rows if row.judgement is None]
        if not unknown:
            return
        # Which values are missing is asked for these alone: they are few.
        decisions = evaluate(self.evaluator, samples, unknown, scores, scores)
        for place, row in enumerate(unknown):
            term = self.terms[decisions.term[place]]
            row.judgement = Judgement(None, term, reason(self.evaluator, samples, decisions, place, row))

    def _settle(self, rows: Sequence[Row], decisions: Decisions) -> None:
        """Note the samples for which the predicate is true or false, and the term by which it is false."""
        kept = Judgement(keep=True)
        for row in compress(rows, decisions.keep.tolist()):
            row.judgement = kept
        for number, term in enumerate(self.terms):
            dropped = Judgement(keep=False, term=term)
            for row in compress(rows, (decisions.drop & (decisions.term == number)).tolist()):
                row.judgement = dropped
