"""The finished shards of a run, for readers of its folder."""

from wdsflow.records.line import lines_paths, read_lines

from .layout import Layout
from .shard_record import ShardRecord

MANIFEST = "manifest"  # without extension


def records_in_order(layout: Layout) -> list[ShardRecord]:
    """Return the finished shards of a run in their order."""
    found = read_lines(lines_paths(layout.inside, MANIFEST), ShardRecord)
    return sorted(found.values(), key=lambda record: record.shard)
