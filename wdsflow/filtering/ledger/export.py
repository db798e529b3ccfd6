"""Lists of the kept samples, in formats of other tools."""

import io
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from wdsflow.filtering.folder.layout import Layout
from wdsflow.filtering.folder.output_targets import finder
from wdsflow.filtering.folder.shard_record import ShardRecord
from wdsflow.filtering.ledger.embeddings import kind_of, write_embeddings
from wdsflow.shards.atomic import create, discard, remove_stale, write_file, writing
from wdsflow.shards.caption_field import parse_json
from wdsflow.shards.samples.tar_sample import TarSample
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.source.opening import open_source

from .arrow_columns import in_utf8

# Columns that img2dataset writes for each sample, as text or integers; the sample's json has the same.
_TEXTS = ("url", "caption", "status", "error_message", "exif", "sha256", "uid")
_NUMBERS = ("width", "height", "original_width", "original_height")
_UID = re.compile("[0-9a-f]{32}")


def check_export(path: Path) -> Callable[[Layout, Sequence[ShardRecord], Path], int]:
    """Return the function that writes a file of this name, by its extension. Raises ValueError if nothing does, OSError as the disk."""
    ways = {".txt": _keys, ".npy": _uids, ".parquet": _columns}
    if path.suffix not in ways:
        raise ValueError(
            f"{path}: lists end in .txt (keys), .npy (DataComp's uids; stored embeddings if the name ends in "
            "image_embeddings.npy or caption_embeddings.npy) or .parquet (img2dataset's columns)"
        )
    if not path.absolute().parent.is_dir():
        raise ValueError(f"the folder {path.absolute().parent} does not exist")
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file for the list")
    discard(*create(path))
    return write_embeddings if kind_of(path) else ways[path.suffix]


def export(layout: Layout, records: Sequence[ShardRecord], path: Path) -> int:
    """Write a list of the kept samples in one step, and return their number.

    ``.txt``: one key per line. ``.npy``: the uids of the samples' json as DataComp's resharder takes them, sorted pairs
    of unsigned 64-bit numbers. ``...image_embeddings.npy``, ``...caption_embeddings.npy``: a matrix of half floats,
    with the keys in a ``.txt`` next to it. ``.parquet``: key, shard, and img2dataset's columns from the samples' json.
    Raises ValueError if samples lack what is asked for, OSError if the disk fails.
    """
    write = check_export(path)
    remove_stale(path.absolute().parent)
    return write(layout, records, path)


def _kept(layout: Layout, record: ShardRecord) -> Iterator[tuple[TarSample, Samples]]:
    if record.output is not None and not record.tars:
        raise ValueError(f"{record.name} is not a tar: --export lists only samples of tars")
    for path in map(finder(layout), record.tars):
        with open_source(str(path)) as source:
            samples = Samples(source, contents=True)
            for sample in samples:
                yield sample, samples


def _json(sample: TarSample, samples: Samples) -> dict[str, Any]:
    row = sample.fields.get("json")
    try:
        found = parse_json(samples.read(row)) if row is not None else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _keys(layout: Layout, records: Sequence[ShardRecord], path: Path) -> int:
    keys = [sample.key for record in records for sample, _ in _kept(layout, record)]
    if any("\n" in key or "\r" in key for key in keys):
        raise ValueError("keys with line breaks cannot be listed in .txt; export to .parquet")
    write_file(path, "".join(f"{key}\n" for key in keys).encode("utf-8", "surrogateescape"))
    return len(keys)


def _uids(layout: Layout, records: Sequence[ShardRecord], path: Path) -> int:
    import numpy as np

    pairs, missing = [], 0
    for record in records:
        for sample, samples in _kept(layout, record):
            uid = _json(sample, samples).get("uid")
            if isinstance(uid, str) and _UID.fullmatch(uid):
                pairs.append((int(uid[:16], 16), int(uid[16:], 16)))
            else:
                missing += 1
    if missing:
        raise ValueError(f"{missing:,} of the kept samples have no uid of 32 hexadecimal digits in their json")
    sink = io.BytesIO()
    np.save(sink, np.array(sorted(pairs), np.dtype("u8,u8")))
    write_file(path, sink.getvalue())
    return len(pairs)


def _columns(layout: Layout, records: Sequence[ShardRecord], path: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = dict.fromkeys(("key", "shard", *_TEXTS), pa.string()) | dict.fromkeys(_NUMBERS, pa.int64())
    schema = pa.schema(list(types.items()))
    count = 0
    with (
        writing(path) as file,
        os.fdopen(os.dup(file), "wb") as stream,
        pq.ParquetWriter(stream, schema, compression="zstd") as writer,
    ):
        for record in records:
            rows = [_row(record.name, sample, samples) for sample, samples in _kept(layout, record)]
            writer.write_table(pa.Table.from_pylist(rows, schema))
            count += len(rows)
    return count


def _row(shard: str, sample: TarSample, samples: Samples) -> dict[str, Any]:
    found = _json(sample, samples)
    row: dict[str, Any] = {"key": in_utf8(sample.key), "shard": shard}
    for name in _TEXTS:
        value = found.get(name)
        row[name] = None if value is None else in_utf8(value if isinstance(value, str) else json.dumps(value))
    for name in _NUMBERS:
        value = found.get(name)
        whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63
        row[name] = value if whole else None
    return row
