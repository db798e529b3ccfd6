"""Which stored embeddings the scores of a shard use, and which are written to its ledger."""

from wdsflow.filtering.deciding.plan import FilterPlan
from wdsflow.filtering.ledger.copied_embeddings import CopiedEmbeddings
from wdsflow.filtering.ledger.embedding_lookup import ShardEmbeddings
from wdsflow.filtering.ledger.embedding_spool import Spool, columns_of
from wdsflow.filtering.ledger.embeddings import current_embeddings, stored_embeddings
from wdsflow.filtering.ledger.ledger_metadata import read_metadata
from wdsflow.filtering.ledger.stored_embeddings import StoredEmbeddings
from wdsflow.filtering.ledger.write_ledger import Vectors
from wdsflow.records.run_folder import ShardRecord

from .earlier_ledger import EarlierLedger
from .shard_task import ShardTask


def open_embeddings(
    task: ShardTask, plan: FilterPlan, record: ShardRecord, earlier: EarlierLedger | None
) -> ShardEmbeddings:
    """Open the ledgers whose embeddings are used, and a spool if embeddings are kept.

    Raises LedgerError.
    """
    if task.scores_from is not None:
        if not plan.models:
            return ShardEmbeddings()
        path = task.scores_from.ledger(task.name)
        current = current_embeddings(plan.models, read_metadata(path), path)
        return ShardEmbeddings(current=current, stored=_reused(task, plan, record))
    stored = _reused(task, plan, record)
    if not (task.recipe.embeddings and task.write):
        return ShardEmbeddings(stored=stored)
    current = None
    if earlier is not None:
        current = current_embeddings(plan.models, earlier.metadata, earlier.path)
    spool = Spool(columns_of(plan.scores.values()), task.layout.spool)
    return ShardEmbeddings(spool=spool, stored=stored, current=current)


def vectors_to_write(task: ShardTask, embeddings: ShardEmbeddings) -> Vectors | None:
    """Return the embeddings of the ledger that a task writes.

    They are new, or those of the ledger that the task reads.
    """
    if task.scores_from is not None and task.recipe.embeddings:
        return CopiedEmbeddings(task.scores_from.ledger(task.name))
    return embeddings.spool


def _reused(task: ShardTask, plan: FilterPlan, record: ShardRecord) -> StoredEmbeddings | None:
    """Return the embeddings of another run, None if none are used."""
    if task.embeddings_from is None:
        return None
    return stored_embeddings(plan.models, task.recipe.stages, record, task.embeddings_from)
