"""Decides samples step by step: after each step of scores, those for which the predicate is known go no further.

A window of samples is decided by one query a step. The order of the steps is fixed by the predicate alone, so a sample
is decided by the same term whether its scores are computed now or come from a ledger.
"""

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from itertools import compress
from typing import NamedTuple, TypeAlias

from wdsflow.expressions.evaluator import Decisions, Evaluator
from wdsflow.expressions.expression import Expression, Term
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.expressions.steps import ScoreStep, steps_of
from wdsflow.filtering.ledger.ledger_row import Judgement, Row

from .row_values import evaluate, reason


class Need(NamedTuple):
    """A sample, and the scores that may decide it and that it lacks."""

    row: Row
    calls: Sequence[ScoreCall]


# Computes scores, and sets them in the values of the rows; those that it leaves out are computed later.
Compute: TypeAlias = Callable[[Sequence[Need]], None]


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
        decisions = evaluate(self.evaluator, [row], (), first)
        self._settle([row], decisions)
        return row.judgement, tuple(call for call in first if decisions.lacks[call][0])

    @property
    def first_calls(self) -> tuple[ScoreCall, ...]:
        """The scores that are needed first, for every sample."""
        return self._start[1] if self.steps else ()

    def advance(self, rows: Sequence[Row], compute: Compute | None = None) -> None:
        """Decide rows as far as possible: set ``judgement``, or ``lacks``, the scores that are needed next.

        ``compute``: computes scores; without it, those that the rows have must do.
        """
        for number in range(len(self.steps) + 1):
            here = [row for row in rows if row.judgement is None and row.step == number]
            if here:
                self._pass(here, number, compute)

    def _pass(self, rows: Sequence[Row], number: int, compute: Compute | None) -> None:
        """Decide rows by the scores of the steps before one, and compute those of this step for the others."""
        if number == len(self.steps):
            self._decide_last(rows)
            return
        needs = self._needs(rows, number)
        if compute is not None:
            lacking = [Need(need.row, calls) for need in needs if (calls := _lacking(need))]
            if lacking:
                compute(lacking)
        for need in needs:
            row = need.row
            row.lacks = _lacking(need)
            if not row.lacks:
                row.step = number + 1

    def _needs(self, rows: Sequence[Row], number: int) -> list[Need]:
        """Decide rows, and return the others with the scores of a step that may decide them."""
        if number == 0:
            judgement, calls = self._start
            for row in rows:
                row.judgement = judgement
            return [] if judgement is not None else [Need(row, calls) for row in rows]
        scores = self.steps[number].scores
        decisions = evaluate(self.evaluator, rows, self._computed(number), scores)
        self._settle(rows, decisions)
        needs: list[Need] = []
        lacks = [decisions.lacks[call].tolist() for call in scores]
        for row, flags in zip(rows, zip(*lacks, strict=True), strict=True):
            if row.judgement is None:
                needs.append(Need(row, scores if all(flags) else list(compress(scores, flags))))
        return needs

    def _decide_last(self, rows: Sequence[Row]) -> None:
        """Decide rows when all their scores are computed: what is not known now never will be."""
        scores = self.expression.scores
        self._settle(rows, evaluate(self.evaluator, rows, scores))
        unknown = [row for row in rows if row.judgement is None]
        if not unknown:
            return
        # Which values are missing is asked for these alone: they are few.
        decisions = evaluate(self.evaluator, unknown, scores, scores)
        for place, row in enumerate(unknown):
            term = self.terms[decisions.term[place]]
            row.judgement = Judgement(None, term, reason(self.evaluator, decisions, place, row))

    def _computed(self, number: int) -> list[ScoreCall]:
        return [call for step in self.steps[:number] for call in step.scores]

    def _settle(self, rows: Sequence[Row], decisions: Decisions) -> None:
        """Note the rows for which the predicate is true or false, and the term by which it is false."""
        dropped = [Judgement(keep=False, term=term) for term in self.terms]
        kept = Judgement(keep=True)
        terms = decisions.term.tolist()
        for place, (is_kept, is_dropped) in enumerate(
            zip(decisions.keep.tolist(), decisions.drop.tolist(), strict=True)
        ):
            if is_kept:
                rows[place].judgement = kept
            elif is_dropped:
                rows[place].judgement = dropped[terms[place]]


def _lacking(need: Need) -> Sequence[ScoreCall]:
    values = need.row.values
    for call in need.calls:
        if call not in values:
            return [call for call in need.calls if call not in values]
    return ()
