"""Writes the files of a shard when the outcomes of all its samples are known."""

from collections.abc import Sequence

from wdsflow.filtering.deciding.program import Program
from wdsflow.filtering.folder.shard_record import ShardRecord
from wdsflow.filtering.kinds import kind_of
from wdsflow.filtering.ledger.ledger import Vectors, write_ledger
from wdsflow.filtering.ledger.ledger_row import Row
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import Source

from .kept_pieces import kept_pieces
from .quarantine import write_quarantine
from .shard_task import ShardTask


def write_shard(
    task: ShardTask, source: Source, program: Program, rows: list[Row], record: ShardRecord, vectors: Vectors | None
) -> None:
    """Write ledger, output and quarantine of a shard, and add them to its record. Raises OSError, SourceError."""
    layout = task.layout
    ledger = layout.ledger(task.name)
    about = {
        **task.about,
        "shard": {"url": task.url, "name": task.name, "number": task.shard},
        "input": record.input,
        "headers": record.headers,
        "members": record.members,
        "left_out": record.left_out,
        "damage": record.damage,
    }
    write_ledger(ledger, rows, program.kinds, program.gathered_calls, about, vectors)
    record.ledger = fingerprint(str(ledger))
    if not task.tars:
        return
    record.quarantine = write_quarantine(layout, task.name, source, task.url, rows, record.headers)
    _write_output(task, source, [row for row in rows if row.outcome == "kept"], record)


def _write_output(task: ShardTask, source: Source, kept: Sequence[Row], record: ShardRecord) -> None:
    recipe, target, kind = task.recipe, task.layout.tar(task.name), kind_of(task.url, task.recipe.lines_to)
    if kept or recipe.empty == "write":
        record.parts = kind.write_beside(target, source, task.url, recipe, kept)
        if not record.parts:
            pieces = kept_pieces(source, task.url, recipe.stages, kept, record.headers)
            write_pieces(target, source, pieces, closed=kind.is_tar)
            record.output = fingerprint(str(target))
    for path in kind.outputs(target) if record.output is None else ():
        if path.name not in record.parts:  # left by a killed run, when the shard was another
            path.unlink(missing_ok=True)
