"""Take a shard's scores from a ledger instead of computing them."""

from collections.abc import Collection

from wdsflow.filtering.folder.layout import Layout
from wdsflow.filtering.folder.shard_record import ShardRecord
from wdsflow.filtering.where.language.values import Call

from .ledger import read_ledger
from .ledger_metadata import same_shard
from .ledger_row import Row


def read_scored(layout: Layout, name: str, record: ShardRecord, *, calls: Collection[Call] | None = None) -> list[Row]:
    """Return the rows of a shard's ledger, and add to its record what the walk over the tar had found.

    ``calls``: the only scores that are read, without what was gathered to compare samples; None for all.

    Raises LedgerError if there is none, or if it was made from another shard, or the shard has changed since.
    """
    path = layout.ledger(name)
    rows, about = read_ledger(path, calls=calls)
    same_shard(about, record, path)
    record.members, record.left_out = about["members"], about["left_out"]
    record.headers = [(start, end) for start, end in about["headers"]]
    record.damage = about["damage"]
    return rows
