"""Which samples of a shard a score compares.

All, or those that the other terms of the predicate keep.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from wdsflow.expressions.evaluator import Evaluator
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.ledger.ledger_metadata import NotCompared
from wdsflow.filtering.ledger.sample_table import LedgerRow, SampleTable

from .decider import decider_of
from .plan import FilterPlan
from .row_values import evaluate


def compared_rows(plan: FilterPlan, table: SampleTable, call: ScoreCall) -> list[LedgerRow]:
    """Return the samples that a score compares.

    They are all readable samples, or those that the other terms keep.

    The other terms are those without scores that compare kept samples; the values of scores that
    compare all samples must be set. Raises NotCompared if one of another score is missing.
    """
    decider = decider_of(plan)
    if decider is None or call not in plan.compared_among_kept:
        return table.readable
    decider.advance(table, table.readable)
    open_rows = [row for row in table.readable if row.judgement is None]
    _check_computed(plan, table, open_rows)
    kept_by_others = _kept_by_others(plan, table, open_rows)
    compared = []
    for row in table.readable:
        if row.judgement is None:
            is_compared = row.number in kept_by_others
        else:
            is_compared = not plan.is_excluded(row)
        if is_compared:
            compared.append(row)
    return compared


def _check_computed(plan: FilterPlan, table: SampleTable, rows: Sequence[LedgerRow]) -> None:
    """Raise NotCompared if samples need a score that is not computed.

    Scores that compare kept samples need not be computed.
    """
    for row in rows:
        for call in table.needed_by(row):
            if call not in plan.compared_among_kept:
                raise NotCompared(
                    str(call),
                    f"{call} was not computed for sample {row.number}, and maybe for others",
                )


def _kept_by_others(plan: FilterPlan, table: SampleTable, rows: Sequence[LedgerRow]) -> set[int]:
    """Return the numbers of the samples that the other terms do not exclude.

    Other terms are those without comparisons of kept samples.
    """
    numbers = {row.number for row in rows}
    if plan.recipe.unknown == "keep" or not rows:
        return numbers
    evaluator = _evaluator_of_others(plan)
    if evaluator is None:
        return numbers
    computed = [call for call in plan.scores if call not in plan.compared_among_kept]
    decisions = evaluate(evaluator, table, rows, computed)
    return {row.number for row, keep in zip(rows, decisions.keep.tolist(), strict=True) if keep}


@lru_cache(maxsize=4)
def _evaluator_of_others(plan: FilterPlan) -> Evaluator | None:
    """Return the evaluator of the terms without comparisons of kept samples.

    None if there is no such term.
    """
    assert plan.expression is not None
    among_kept = set(plan.compared_among_kept)
    others = tuple(term for term in plan.terms if among_kept.isdisjoint(term.scores))
    return Evaluator(replace(plan.expression, terms=others)) if others else None
