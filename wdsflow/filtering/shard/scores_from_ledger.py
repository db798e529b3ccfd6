"""Takes the scores of a shard from a ledger, and computes those that it lacks.

A score is computed only for the samples that it may decide.
"""

from itertools import zip_longest

from wdsflow.filtering.deciding.compared_values import add_compared
from wdsflow.filtering.deciding.decider import decider_of
from wdsflow.filtering.ledger.ledger_metadata import OtherShard, read_metadata
from wdsflow.filtering.ledger.read_ledger import read_scored
from wdsflow.filtering.ledger.sample_table import LedgerRow, SampleTable
from wdsflow.records.run_folder import Layout
from wdsflow.shards.samples.tar_samples import Samples

from .open_shard import OpenShard, ScoredShard
from .same_sample import same_sample
from .selected_samples import selected_samples
from .shard_progress import ShardProgress


def scores_from_ledger(shard: OpenShard, scored: Layout) -> ScoredShard:
    """Return the scores that decide the samples of a shard, by its ledger in ``scored``.

    Raises LedgerError; SourceError; SourceChangedError if the shard has other samples than the
    ledger.
    """
    task = shard.task
    table = read_scored(scored, task.name, shard.record)
    _check_samples(shard, table, scored)
    if task.compares:
        add_compared(shard.plan, table, task.layout, task.name)
    shard.exclude(table.rows)
    return _with_missing_scores(shard, table, scored)


def _check_samples(shard: OpenShard, table: SampleTable, scored: Layout) -> None:
    """Raise OtherShard if the samples of a shard are not those of the ledger.

    They are compared only if the shard may have been rewritten.

    A rewritten shard may have the same size and pieces. For the output of a command, this is the
    only check.
    """
    path = scored.ledger(shard.task.name)
    input_then = read_metadata(path)["input"]
    input_now = shard.record.input
    has_same_time = input_then.get("changed") == input_now.get("changed")
    if has_same_time and not shard.task.url.is_pipe:
        return
    for row, sample in zip_longest(table.rows, Samples(shard.source, contents=False)):
        if row is None or sample is None or not same_sample(row, sample):
            raise OtherShard(path, shard.record.url)


def _with_missing_scores(shard: OpenShard, table: SampleTable, scored: Layout) -> ScoredShard:
    """Compute the scores that a ledger lacks, for the samples that they may decide.

    Other samples are not read.
    """
    plan = shard.plan
    decider = decider_of(plan)
    if decider is not None:
        decider.advance(table, table.readable)
    incomplete: list[LedgerRow] = []
    complete: list[LedgerRow] = []
    for row in table.rows:
        if plan.lacks_values(table, row):
            incomplete.append(row)
        else:
            complete.append(row)
    if not incomplete:
        return ScoredShard(table, ())
    stored = read_metadata(scored.ledger(shard.task.name))["identities"]
    # Ranks are computed from the ledgers of all shards, never from a shard.
    missing = [call for call in plan.scores if call not in plan.ranks and str(call) not in stored]
    progress = ShardProgress(shard.mark, shard.source.length)
    progress.add(complete)
    with shard.scorer(table, missing, progress) as scorer:
        for sample in selected_samples(shard, incomplete):
            scorer.add([sample])
        scorer.finish()
    return ScoredShard(table, missing)
