"""Writes kept rows byte for byte, and their scores."""

from collections.abc import Sequence
from typing import Any

from wdsflow.filtering.folder.layout import Layout
from wdsflow.filtering.folder.shard_record import ShardRecord
from wdsflow.filtering.ledger.ledger_row import Row
from wdsflow.filtering.shard.quarantine import write_lines
from wdsflow.filtering.where.language.values import Unknown
from wdsflow.shards.samples.copy_ranges import write_pieces
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import Source


def write_rows(
    layout: Layout, name: str, source: Source, rows: Sequence[Row], record: ShardRecord, *, empty: bool
) -> None:
    """Write ``name`` with the kept rows, and ``.stats.jsonl`` next to it with a line for each of them.

    A line is {"__dj__stats__": {score: value}}, as Data-Juicer writes it, without values that could not be computed or
    were not needed. ``empty``: also write a file without rows. Raises OSError, ShortSourceError.
    """
    kept = [row for row in rows if row.outcome == "kept"]
    target, stats = layout.tar(name), layout.stats(name)
    if kept or empty:
        write_lines(stats, map(_stats, kept))
        write_pieces(target, source, [(row.start, row.end) for row in kept], closed=False)
        record.output = fingerprint(str(target))
    else:
        target.unlink(missing_ok=True)
        stats.unlink(missing_ok=True)


def _stats(row: Row) -> dict[str, Any]:
    return {"__dj__stats__": {str(call): value for call, value in row.values.items() if not isinstance(value, Unknown)}}
