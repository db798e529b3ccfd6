"""Scores a shard whose scores are not in a ledger.

All its samples are read, in the order of the tar.
"""

from collections.abc import Iterable, Sequence

from wdsflow.filtering.deciding.compared_values import add_compared
from wdsflow.filtering.deciding.direct_scores import ViewedSample
from wdsflow.filtering.ledger.sample_table import LedgerRow, SampleTable
from wdsflow.filtering.samples.staging import RejectedSample
from wdsflow.filtering.samples.views import Views
from wdsflow.shards.samples.tar_samples import Samples, TarSample

from .earlier_ledger import EarlierLedger
from .open_shard import OpenShard, ScoredShard
from .shard_progress import ShardProgress


def score_shard(shard: OpenShard, earlier: EarlierLedger | None) -> ScoredShard:
    """Compute the scores that decide the samples of a shard.

    Scores that an earlier ledger has are not computed.

    Raises SourceError; SourceChangedError if the earlier ledger has other samples.
    """
    plan, record = shard.plan, shard.record
    stored = earlier.calls if earlier is not None else frozenset()
    calls = [call for call in plan.scores if call not in plan.ranks and call not in stored]
    table = earlier.table() if earlier is not None else SampleTable()
    samples = Samples(shard.source, contents=plan.reads_contents(stored))
    progress = ShardProgress(shard.mark, shard.source.length)
    reader = _SampleReader(shard, earlier, shard.views(samples))
    with shard.scorer(table, calls, progress) as scorer:
        for group in samples.groups():
            for part in scorer.parts(group):
                rows = reader.rows(part)
                table.rows += rows
                viewed = reader.viewed(part, rows)
                progress.add([row for row in rows if row.trouble])
                scorer.add(viewed)
        scorer.finish()
    if earlier is not None:
        earlier.check_count(table)
    _mark_scattered(table.rows)
    record.members = samples.members
    record.headers = samples.headers
    record.left_out = dict(sorted(samples.left_out.items()))
    record.damage += samples.damage
    if shard.task.compares:
        add_compared(plan, table, shard.task.layout, shard.task.name)
    return ScoredShard(table, calls)


class _SampleReader:
    """Makes rows and views of neighbouring samples."""

    def __init__(self, shard: OpenShard, earlier: EarlierLedger | None, views: Views) -> None:
        self._shard = shard
        self._earlier = earlier
        self._views = views

    def rows(self, samples: Sequence[TarSample]) -> list[LedgerRow]:
        """Return the rows of some samples.

        Raises SourceChangedError if an earlier ledger has other samples.
        """
        rows = []
        for sample in samples:
            row = LedgerRow(sample.number, sample.key, sample.start, sample.end)
            row.fields = self._views.fields_of(sample)
            row.trouble = sample.trouble
            rows.append(row)
        if self._earlier is not None:
            for row in rows:
                self._earlier.fill(row)
                self._shard.embeddings.keep_current(row)
        if self._shard.task.excluded:
            self._shard.exclude(rows)
        return rows

    def viewed(self, samples: Sequence[TarSample], rows: Sequence[LedgerRow]) -> list[ViewedSample]:
        """Return those of some samples that can be scored; the rows of others get the trouble."""
        viewed = []
        for sample, row in zip(samples, rows, strict=True):
            if row.trouble:
                continue
            self._shard.mark.set_sample(row.number)
            try:
                viewed.append(ViewedSample(row, self._views.view(sample)))
            except RejectedSample as rejected:
                row.trouble, row.trouble_detail = rejected.trouble, rejected.detail
        return viewed


def _mark_scattered(rows: Iterable[LedgerRow]) -> None:
    """Mark samples whose members are not adjacent: each part would be an incomplete sample."""
    parts: dict[str, LedgerRow] = {}
    for row in rows:
        first = parts.setdefault(row.key, row)
        if first is not row and set(first.fields).isdisjoint(row.fields):
            first.trouble = first.trouble or "scattered"
            row.trouble = row.trouble or "scattered"
