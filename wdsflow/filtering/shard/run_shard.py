"""Processes one shard: its output, its ledger and its quarantined samples."""

import platform
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from wdsflow.engines.base import EnvironmentMismatchError
from wdsflow.engines.mark import Mark
from wdsflow.filtering.deciding.broken_scores import always_failing
from wdsflow.filtering.deciding.outcome_counts import count_outcomes
from wdsflow.filtering.deciding.plan import FilterPlan, plan_of
from wdsflow.filtering.deciding.sample_outcomes import set_outcomes
from wdsflow.filtering.joined_samples import with_fields
from wdsflow.filtering.ledger.ledger_metadata import LedgerError, OtherShard
from wdsflow.filtering.ledger.sample_table import (
    LedgerRow,
    SampleTable,
    quarantine_same_key_neighbours,
)
from wdsflow.filtering.recipe.recipe import differences
from wdsflow.records.run_folder import ShardFailure, ShardRecord
from wdsflow.shards.atomic import UNREADABLE
from wdsflow.shards.source.base import SourceChangedError, SourceError
from wdsflow.shards.source.opening import seekable

from .earlier_ledger import EarlierLedger
from .open_shard import OpenShard
from .resized_images import ResizedImages
from .score_shard import score_shard
from .scores_from_ledger import scores_from_ledger
from .selected_samples import selected_samples
from .shard_embeddings import open_embeddings, vectors_to_write
from .shard_outputs import write_shard
from .shard_task import ShardTask


def run_shard(task: ShardTask, mark: Mark) -> ShardRecord | ShardFailure:
    """Process a shard. On return all its files are complete; before, none is partially visible.

    Returns a failure if the shard cannot be read, or its ledger is missing or belongs to another
    shard. Raises OSError if an output cannot be written, EnvironmentMismatchError if installed
    libraries differ from those at the start of the run.
    """
    try:
        return _process(task, mark)
    except SourceError as error:
        return ShardFailure(task.shard, task.url, task.name, str(error), error.kind)
    except LedgerError as error:
        missing = getattr(error, "call", "")
        return ShardFailure(task.shard, task.url, task.name, str(error), "ledger", missing)
    except OSError as error:
        # Of a file that was open.
        if error.filename is None and error.errno not in UNREADABLE:
            error.filename = str(task.layout.folder)
        raise


def _process(task: ShardTask, mark: Mark) -> ShardRecord:
    plan = plan_of(task.recipe)
    _check_environment(task, plan)
    record = ShardRecord(task.shard, task.url, task.name, task.identity, task.input_identity())
    with seekable(task.url, task.layout.spool, allow_pipe=task.allow_pipe) as (stored, damage):
        source = with_fields(stored, task.url, task.join)
        earlier = _earlier_ledger(task, plan, record)
        with (
            open_embeddings(task, plan, record, earlier) as embeddings,
            _resized_images(task, plan) as resized,
        ):
            if damage:
                record.damage.append(damage)
            shard = OpenShard(task, plan, record, source, mark, embeddings, resized)
            if task.scores_from is None:
                scored = score_shard(shard, earlier)
            else:
                scored = scores_from_ledger(shard, task.scores_from)
            table = scored.table
            if task.compares or not plan.dataset_calls:
                _decide(shard, table)
            count_outcomes(table, record, plan.terms)
            if record.failed:
                record.failing = always_failing(table, scored.computed)
            record.check()
            if task.write:
                _write(shard, table)
    return record


def _check_environment(task: ShardTask, plan: FilterPlan) -> None:
    """Raise EnvironmentMismatchError if scores would have other values here.

    The machine that started the run is the reference.
    """
    expected = task.metadata.get("identities")
    if expected is not None and expected != plan.score_identities:
        changes = "; ".join(differences(expected, plan.score_identities))
        raise EnvironmentMismatchError(
            f"{platform.node()} would compute other values than the machine that started the run: {changes}"
        )


def _earlier_ledger(task: ShardTask, plan: FilterPlan, record: ShardRecord) -> EarlierLedger | None:
    if task.scores_from is not None or task.earlier is None:
        return None
    return EarlierLedger(task.earlier, record, plan, for_all=task.earlier_for_all)


def _resized_images(
    task: ShardTask, plan: FilterPlan
) -> AbstractContextManager[ResizedImages | None]:
    if plan.shrinker is None or not task.tars:
        return nullcontext()
    return ResizedImages(plan.shrinker, task.layout.spool)


def _decide(shard: OpenShard, table: SampleTable) -> None:
    """Set the outcomes of all samples."""
    set_outcomes(shard.plan, table)
    if shard.task.tars:
        if shard.resized is not None:
            _resize_remaining(shard, table.rows, shard.resized)
        quarantine_same_key_neighbours(table.rows)


def _resize_remaining(shard: OpenShard, rows: Sequence[LedgerRow], resized: ResizedImages) -> None:
    """Make the images of the kept samples smaller that were not decided when they were read.

    Raises SourceError; SourceChangedError if the shard has other samples than before.
    """
    kept = [row for row in rows if row.outcome == "kept"]
    remaining = [row for row in kept if not resized.has_sample(row)]
    for row, view in selected_samples(shard, remaining):
        resized.add(row, view)
    resized.quarantine(kept)


def _write(shard: OpenShard, table: SampleTable) -> None:
    """Write all files of a shard, unless it has changed while it was read."""
    task = shard.task
    if task.input_identity() != shard.record.input:
        raise SourceChangedError
    vectors = vectors_to_write(task, shard.embeddings)
    try:
        write_shard(shard, table, vectors)
    except SourceChangedError:
        if task.scores_from is None:
            raise
        raise OtherShard(task.scores_from.ledger(task.name), task.url) from None
