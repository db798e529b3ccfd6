"""Writes the files of a shard when the outcomes of all its samples are known."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from wdsflow.filtering.deciding.program import Program
from wdsflow.filtering.folder.layout import Layout
from wdsflow.filtering.folder.shard_record import ShardRecord
from wdsflow.filtering.jsonl.jsonl_names import is_lines
from wdsflow.filtering.jsonl.jsonl_rows import TextRows
from wdsflow.filtering.jsonl.tars import write_tars
from wdsflow.filtering.ledger.ledger import Vectors, write_ledger
from wdsflow.filtering.ledger.ledger_row import Row
from wdsflow.filtering.where.language.values import Unknown
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import Source

from .kept_pieces import kept_pieces
from .open_samples import root_of, tar_size_of, tokens_of
from .quarantine import write_lines, write_quarantine
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
    quarantine = partial(write_quarantine, layout, task.name, source, task.url, rows, record.headers)
    if is_lines(task.url):
        empty = task.recipe.empty == "write"
        if task.recipe.lines_to == "tar":
            texts, most = texts_of(task, source), tar_size_of(task.recipe)
            write_tars(layout, task.name, source, rows, record, texts, most, empty=empty)
        else:
            _write_rows(layout, task.name, source, rows, record, empty=empty)
        record.quarantine = quarantine()
        return
    record.quarantine = quarantine()
    target = layout.tar(task.name)
    if record.kept or task.recipe.empty == "write":
        kept = [row for row in rows if row.outcome == "kept"]
        write_pieces(target, source, kept_pieces(source, task.url, task.recipe.stages, kept, record.headers))
        record.output = fingerprint(str(target))
    else:
        target.unlink(missing_ok=True)  # left by a killed run, when the shard was another


def _write_rows(
    layout: Layout, name: str, source: Source, rows: Sequence[Row], record: ShardRecord, *, empty: bool
) -> None:
    """Write ``name`` with the kept rows of JSON lines, and ``.stats.jsonl`` next to it with a line for each of them.

    A line is {"__dj__stats__": {score: value}}, as Data-Juicer writes it, without values that could not be computed or
    were not needed. ``empty``: also write a file without rows.
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


def texts_of(task: ShardTask, source: Source) -> TextRows:
    """Return the reader of rows of JSON lines."""
    return TextRows(source, tokens_of(task.recipe), root_of(task.url, task.recipe))
