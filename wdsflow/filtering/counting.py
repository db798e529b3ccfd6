"""What became of the samples of a shard, in numbers."""

from collections import Counter
from collections.abc import Sequence

from wdsflow.filtering.record import ShardRecord
from wdsflow.filtering.row import NOT_COMPARED, Row
from wdsflow.filtering.where.values import Unknown


def count(rows: Sequence[Row], record: ShardRecord) -> None:
    """Complete the record of a shard by the outcomes of its samples."""
    dropped: Counter[str] = Counter()
    quarantined: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for row in rows:
        if row.outcome == "kept":
            record.kept += 1
        elif row.outcome == "dropped":
            dropped[row.term or ""] += 1
        else:
            quarantined[row.error or ""] += 1
        for call, value in row.values.items():
            if isinstance(value, Unknown) and value != NOT_COMPARED:
                failed[f"{call}: {value.slug}"] += 1
    record.samples = len(rows)
    record.dropped, record.quarantined = dict(sorted(dropped.items())), dict(sorted(quarantined.items()))
    record.failed = dict(sorted(failed.items()))
