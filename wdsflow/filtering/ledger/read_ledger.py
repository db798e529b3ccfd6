"""Reads ledgers: the samples of a shard with their scores."""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.predicates.values import Unknown
from wdsflow.records.run_folder import Layout, ShardRecord
from wdsflow.table_files.parquet_file import ParquetError, ParquetFile, as_list

from .column_names import column_of, gathered_column, names_in_file
from .ledger_metadata import (
    LedgerError,
    LedgerMetadata,
    calls_of,
    check_same_shard,
    embedding_columns,
    read_metadata,
)
from .sample_table import LedgerRow, SampleTable


def read_ledger(
    path: Path, only: Sequence[int] | None = None, *, calls: Collection[ScoreCall] | None = None
) -> tuple[SampleTable, LedgerMetadata]:
    """Return the samples of a ledger, or only some by their numbers, and its metadata.

    Raises LedgerError.

    ``calls``: the only scores that are read, without the data gathered to compare samples; None for
    all.
    """
    metadata = read_metadata(path)
    stored = calls_of(metadata)
    gathered = metadata["gathered"]
    names = names_in_file(stored, gathered)
    omitted = set(embedding_columns(metadata))
    kinds = stored
    if calls is not None:
        kinds = {call: kind for call, kind in stored.items() if call in calls}
        omitted |= {names[column_of(str(call))] for call in stored if call not in calls}
        omitted |= {names[gathered_column(name)] for name in gathered}
        gathered = []
    try:
        file = ParquetFile(path)
        arrays = file.arrays([name for name in file.names if name not in omitted])
    except (ParquetError, OSError) as error:
        raise LedgerError(f"{path} cannot be read: {error}") from None
    if only is not None:
        arrays = {name: array[list(only)] for name, array in arrays.items()}
    table = {name: as_list(array) for name, array in arrays.items()}
    samples = SampleTable(_rows(table))
    _read_values(samples, table, kinds, names)
    calls_by_name = {str(call): call for call in stored}
    for name in gathered:
        cells = table[names[gathered_column(name)]]
        samples.gathered[calls_by_name[name]] = _present(samples.rows, cells)
    return samples, metadata


def _rows(table: Mapping[str, list[Any]]) -> list[LedgerRow]:
    """Return the samples of a ledger, without their outcomes."""
    rows = []
    for index, number in enumerate(table["sample"]):
        start = table["offset"][index]
        row = LedgerRow(number, table["key"][index], start, start + table["size"][index])
        row.digest = table["image_xxh3"][index]
        row.trouble = table["trouble"][index] or ""
        if row.trouble:
            row.trouble_detail = table["detail"][index] or ""
        fields = table["fields"][index]
        row.fields = tuple(fields.split(";")) if fields else ()
        rows.append(row)
    return rows


def _read_values(
    samples: SampleTable,
    table: Mapping[str, list[Any]],
    kinds: Mapping[ScoreCall, str],
    names: Mapping[str, str],
) -> None:
    """Add the values of scores to samples: single ones, lists, and why others are missing."""
    columns: dict[str, dict[int, Any]] = {}
    for call in kinds:
        values = _present(samples.rows, table[names[column_of(str(call))]])
        samples.columns[call] = values
        columns[str(call)] = values
    for number, text in _present(samples.rows, table["several"]).items():
        for name, items in json.loads(text).items():
            if name in columns:
                columns[name][number] = items
    for number, failures in _present(samples.rows, table["failed"]).items():
        for failure in failures:
            name = failure["score"]
            if name in columns:
                columns[name][number] = Unknown(failure["error"], failure["detail"] or "")


def _present(rows: Sequence[LedgerRow], cells: Sequence[Any]) -> dict[int, Any]:
    """Return the cells of a column that are not null, by the number of the sample."""
    return {row.number: cell for row, cell in zip(rows, cells, strict=True) if cell is not None}


def read_scored(
    layout: Layout, name: str, record: ShardRecord, *, calls: Collection[ScoreCall] | None = None
) -> SampleTable:
    """Return the samples of a shard's ledger, and complete the record of the shard.

    The record gets the counts and the damage of the tar.

    ``calls``: as for ``read_ledger``. Raises LedgerError if there is none, or if it was made from
    another shard, or the shard has changed since.
    """
    path = layout.ledger(name)
    samples, metadata = read_ledger(path, calls=calls)
    check_same_shard(metadata, record, path)
    record.members, record.left_out = metadata["members"], metadata["left_out"]
    record.headers = [(start, end) for start, end in metadata["headers"]]
    record.damage = metadata["damage"]
    return samples
