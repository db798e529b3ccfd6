"""Writes ledgers: one Parquet file per shard, every sample with its scores and its outcome."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from wdsflow.expressions.score_call import Constant, ScoreCall
from wdsflow.filtering.predicates.values import Unknown, Value
from wdsflow.table_files.parquet_columns import (
    Column,
    bytes_column,
    integer_column,
    json_column,
    number_column,
    text_column,
    truth_column,
)
from wdsflow.table_files.parquet_writer import ParquetWriter, write_parquet
from wdsflow.text.utf8 import in_utf8

from .column_names import RESIZED, column_of, gathered_column, names_in_file
from .ledger_metadata import FORMAT, GROUP, EmbeddingMetadata
from .sample_table import NOT_COMPARED, LedgerRow, SampleTable

_FAILURES = '[{"score": "VARCHAR", "error": "VARCHAR", "detail": "VARCHAR"}]'
# Types whose values need no individual check; a text may have characters that UTF-8 cannot encode.
_PLAIN_TYPES: dict[str, set[type]] = {
    "number": {int, float, type(None)},
    "boolean": {bool, type(None)},
    "text": {type(None)},
}
_MAKE: dict[str, Callable[[list[Any]], Column]] = {
    "number": number_column,
    "boolean": truth_column,
    "text": text_column,
}


class Vectors(Protocol):
    """The source of a shard's embeddings when its ledger is written."""

    def metadata(self) -> list[EmbeddingMetadata]:
        """Return the metadata of each column."""

    def groups(self, rows: Sequence[LedgerRow]) -> Iterator[dict[str, Column]]:
        """Yield the columns for 2,048 rows at a time, in order; for no rows once."""


def write_ledger(
    path: Path,
    samples: SampleTable,
    kinds: Mapping[ScoreCall, str],
    gathered: Sequence[ScoreCall],
    metadata: Mapping[str, Any],
    vectors: Vectors | None = None,
    scratch: Path | None = None,
) -> None:
    """Write the ledger of a shard, one row per sample in the order of the tar.

    Args:
        path: path of the file; an existing file is replaced in one step.
        samples: all samples of the shard.
        kinds: the scores with a column each: "number" (float64), "boolean" or "text". A score that
            was not needed, or could not be computed, is null; ``failed`` names the latter. If a
            sample has several images or captions, their values are in ``several``, as JSON. Images
            that were made smaller are in ``resized``, as JSON.
        gathered: scores that compare samples; the compared data has a binary column.
        metadata: with the recipe; stored as JSON in the file's metadata, under "wdsflow".
        vectors: embeddings, which get their own columns and are written in groups of 2,048 rows.
        scratch: a folder for embeddings that do not fit into memory, as ``ParquetWriter`` takes it;
            by default next to the file.
    """
    key_values = {"wdsflow": _metadata_text(kinds, gathered, metadata, vectors)}
    path.parent.mkdir(parents=True, exist_ok=True)
    resized = bool(metadata["recipe"]["resize"])
    if vectors is None:
        columns = _columns(samples, samples.rows, kinds, gathered, resized)
        write_parquet(path, columns, key_values)
        return
    with ParquetWriter(scratch or path.with_suffix(".rows"), GROUP) as writer:
        for number, embeddings in enumerate(vectors.groups(samples.rows)):
            rows = samples.rows[number * GROUP : (number + 1) * GROUP]
            columns = _columns(samples, rows, kinds, gathered, resized)
            writer.add(columns | embeddings)
        writer.write(path, key_values)


def _metadata_text(
    kinds: Mapping[ScoreCall, str],
    gathered: Sequence[ScoreCall],
    metadata: Mapping[str, Any],
    vectors: Vectors | None,
) -> str:
    """Return the metadata of a ledger as JSON."""
    scores: list[dict[str, object]] = []
    for call, kind in kinds.items():
        scores.append({"name": call.name, "settings": dict(call.settings), "kind": kind})
    stored = {
        "format": FORMAT,
        "scores": scores,
        "gathered": [str(call) for call in gathered],
        **metadata,
    }
    if vectors is not None:
        stored["embeddings"] = vectors.metadata()
    return json.dumps(stored, sort_keys=True)


def _columns(
    samples: SampleTable,
    rows: Sequence[LedgerRow],
    kinds: Mapping[ScoreCall, str],
    gathered: Sequence[ScoreCall],
    resized: bool,
) -> dict[str, Column]:
    """Return the columns of some rows, but for embeddings."""
    columns = {**_fixed_columns(rows), **_score_columns(samples, rows, kinds, gathered)}
    if resized:
        columns[RESIZED] = text_column([_resized_text(row) for row in rows])
    return columns


def _resized_text(row: LedgerRow) -> str | None:
    """Return the images of a sample that were made smaller, as JSON; None if none is written."""
    if not row.resized or row.outcome != "kept":
        return None
    return json.dumps(row.resized)


def _fixed_columns(rows: Sequence[LedgerRow]) -> dict[str, Column]:
    """Return the columns that every ledger has."""
    # Most samples have the same fields: each text is made once.
    distinct = {row.fields for row in rows}
    field_texts = {names: in_utf8(";".join(names)) for names in distinct}
    return {
        "sample": integer_column([row.number for row in rows]),
        "key": text_column([in_utf8(row.key) for row in rows]),
        "offset": integer_column([row.start for row in rows]),
        "size": integer_column([row.end - row.start for row in rows]),
        "image_xxh3": text_column([row.digest for row in rows]),
        "outcome": text_column([row.outcome for row in rows]),
        "term": text_column([row.term for row in rows]),
        "error": text_column([row.error for row in rows]),
        "detail": text_column([in_utf8(row.detail) for row in rows]),
        "trouble": text_column([row.trouble or None for row in rows]),
        "fields": text_column([field_texts[row.fields] for row in rows]),
    }


def _score_columns(
    samples: SampleTable,
    rows: Sequence[LedgerRow],
    kinds: Mapping[ScoreCall, str],
    gathered: Sequence[ScoreCall],
) -> dict[str, Column]:
    """Return a column for each score.

    Then columns of the values that are lists, and of why other values are missing.
    """
    numbers = [row.number for row in rows]
    columns: dict[str, Column] = {}
    names = names_in_file(kinds, map(str, gathered))
    # By the number of the sample.
    several: dict[int, dict[str, Value]] = {}
    failed: dict[int, list[dict[str, str | None]]] = {}
    for call, kind in kinds.items():
        name = names[column_of(str(call))]
        computed = samples.columns[call]
        values = list(map(computed.get, numbers))
        if set(map(type, values)) <= _PLAIN_TYPES[kind] and None not in computed.values():
            columns[name] = _MAKE[kind](values)
            continue
        columns[name] = _MAKE[kind]([_cell(value, kind) for value in values])
        for number in numbers:
            if number not in computed:
                continue
            value = computed[number]
            if isinstance(value, list):
                several.setdefault(number, {})[str(call)] = value
                continue
            failure = _failure(call, value)
            if failure is not None:
                failed.setdefault(number, []).append(failure)
    for call in gathered:
        cells = list(map(samples.gathered[call].get, numbers))
        columns[names[gathered_column(str(call))]] = bytes_column(cells)
    columns["several"] = text_column(_json_texts(several, numbers))
    columns["failed"] = json_column(_json_texts(failed, numbers), _FAILURES)
    return columns


def _json_texts(values: Mapping[int, object], numbers: Sequence[int]) -> list[str | None]:
    """Return the values of samples as JSON, None for those without one."""
    texts: list[str | None] = []
    for number in numbers:
        if number in values:
            texts.append(json.dumps(values[number]))
        else:
            texts.append(None)
    return texts


def _cell(value: Value | Unknown, kind: str) -> Constant | None:
    if value is None or isinstance(value, (Unknown, list)):
        return None
    if kind == "number":
        return float(value)
    return in_utf8(str(value)) if kind == "text" else bool(value)


def _failure(call: ScoreCall, value: Value | Unknown) -> dict[str, str | None] | None:
    """Return why a score has no value, None if it has one, or is not compared."""
    if value is None:
        # Computed, which differs from not computed.
        value = Unknown("null")
    if not isinstance(value, Unknown) or value == NOT_COMPARED:
        return None
    return {"score": str(call), "error": value.slug, "detail": in_utf8(value.detail)}
