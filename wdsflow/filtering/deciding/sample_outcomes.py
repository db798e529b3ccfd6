"""The outcomes of samples: kept, dropped by a term, or quarantined for a reason."""

from wdsflow.filtering.ledger.ledger_metadata import MissingScore
from wdsflow.filtering.ledger.sample_table import LedgerRow, SampleTable
from wdsflow.filtering.samples.staging import DROPPED

from .decider import decider_of
from .plan import FilterPlan


def set_outcomes(plan: FilterPlan, table: SampleTable) -> None:
    """Set the outcomes of samples by their scores.

    Raises MissingScore if a value of a required score is missing.
    """
    decider = decider_of(plan)
    if decider is not None:
        decider.advance(table, table.readable)
    for row in table.rows:
        row.outcome, row.term, row.error, row.detail = "kept", None, None, None
        if row.trouble.startswith(DROPPED):
            row.outcome = "dropped"
            row.term = row.trouble.removeprefix(DROPPED)
            row.detail = row.trouble_detail or None
        elif row.trouble:
            row.quarantine(row.trouble, row.trouble_detail)
        elif decider is not None:
            _set_outcome(plan, table, row)


def _set_outcome(plan: FilterPlan, table: SampleTable, row: LedgerRow) -> None:
    """Set the outcome of a readable sample by its judgement."""
    judgement = row.judgement
    if judgement is None:
        missing = table.needed_by(row)[0]
        raise MissingScore(
            str(missing),
            f"{missing} was not computed for sample {row.number}, and maybe for others",
        )
    if judgement.keep:
        return
    row.term = str(judgement.term)
    if judgement.unknown is None:
        row.outcome = "dropped"
        return
    if plan.recipe.unknown == "quarantine":
        row.quarantine(judgement.unknown.slug, judgement.unknown.detail)
        return
    row.outcome = "kept" if plan.recipe.unknown == "keep" else "dropped"
    row.error, row.detail = judgement.unknown.slug, judgement.unknown.detail or None
