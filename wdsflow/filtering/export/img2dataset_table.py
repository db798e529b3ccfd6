"""A Parquet table of the kept samples, with the columns that img2dataset writes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wdsflow.records.run_folder import Layout, ShardRecord
from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.table_files.parquet_columns import Column, integer_column, text_column
from wdsflow.table_files.parquet_writer import ParquetWriter
from wdsflow.text.utf8 import in_utf8

from .kept_samples import json_of, kept_samples

# Columns that img2dataset writes for each sample, as text or integers; the sample's json has the
# same.
_TEXTS = ("url", "caption", "status", "error_message", "exif", "sha256", "uid")
_NUMBERS = ("width", "height", "original_width", "original_height")


def write_table(layout: Layout, records: Sequence[ShardRecord], path: Path) -> int:
    """Write a row for each kept sample; return their number."""
    count = 0
    with ParquetWriter(path.with_name(f".{path.name}.rows")) as writer:
        # The file has its columns even without samples.
        writer.add(_img2dataset_columns([]))
        for record in records:
            rows = [
                _row(record.name, sample, samples)
                for sample, samples in kept_samples(layout, record)
            ]
            writer.add(_img2dataset_columns(rows))
            count += len(rows)
        writer.write(path, {})
    return count


def _img2dataset_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for name in ("key", "shard", *_TEXTS):
        columns[name] = text_column([row[name] for row in rows])
    for name in _NUMBERS:
        columns[name] = integer_column([row[name] for row in rows])
    return columns


def _row(shard: str, sample: TarSample, samples: Samples) -> dict[str, object]:
    content = json_of(sample, samples)
    row: dict[str, object] = {"key": in_utf8(sample.key), "shard": shard}
    for name in _TEXTS:
        row[name] = _text(content.get(name))
    for name in _NUMBERS:
        row[name] = _integer(content.get(name))
    return row


def _text(value: object) -> str | None:
    """Return a value of json as text: objects and numbers as JSON."""
    if value is None:
        return None
    return in_utf8(value if isinstance(value, str) else json.dumps(value))


def _integer(value: object) -> int | None:
    """Return a value of json that fits into a column of integers, None for any other."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) < 1 << 63 else None
