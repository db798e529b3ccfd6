"""Lists of the kept samples, in formats of other tools."""

import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from wdsflow.filtering.ledger.ledger_metadata import LedgerError, read_metadata
from wdsflow.records.run_folder import Layout, ShardRecord
from wdsflow.records.working_folder import store_of
from wdsflow.shards.atomic import create, discard, remove_stale, write_file, writing
from wdsflow.shards.caption_field import parse_json
from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.opening import open_source
from wdsflow.stages.scores.reference_lists import bytes_of_list
from wdsflow.table_files.parquet_columns import Column, integer_column, text_column
from wdsflow.table_files.parquet_file import ParquetFile, as_list
from wdsflow.table_files.parquet_writer import ParquetWriter
from wdsflow.text.utf8 import in_utf8

from .ledger_metadata import GROUP, calls_of
from .read_ledger import read_ledger

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns that img2dataset writes for each sample, as text
# or integers; the sample's json has the same.
_TEXTS = ("url", "caption", "status", "error_message", "exif", "sha256", "uid")
_NUMBERS = ("width", "height", "original_width", "original_height")
_UID = re.compile("[0-9a-f]{32}")

# Ending of a file of embeddings -> what they are of.
_EMBEDDING_ENDINGS = {"image_embeddings.npy": "image", "caption_embeddings.npy": "caption"}


def check_export(path: Path) -> Callable[[Layout, Sequence[ShardRecord], Path], int]:
    """Return the function that writes a file of this name, by its extension. Raises ValueError if unknown, OSError."""
    writers = {".txt": _keys, ".npy": _uids, ".parquet": _columns, ".npz": _reference_list}
    if path.suffix not in writers:
        raise ValueError(
            f"{path}: lists end in .txt (keys), .npy (DataComp's uids; stored embeddings if the name ends in "
            "image_embeddings.npy or caption_embeddings.npy), .parquet (img2dataset's columns) or .npz (a list of "
            "images for --near: hashes, or embeddings if the name ends in embeddings.npz)"
        )
    if not path.absolute().parent.is_dir():
        raise ValueError(f"the folder {path.absolute().parent} does not exist")
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file for the list")
    discard(*create(path))
    return write_embeddings if embedding_kind(path) else writers[path.suffix]


def export(layout: Layout, records: Sequence[ShardRecord], path: Path) -> int:
    """Write a list of the kept samples in one step, and return their number.

    ``.txt``: one key per line. ``.npy``: the uids of the samples' json as DataComp's resharder
    takes them, sorted pairs of unsigned 64-bit numbers. ``...image_embeddings.npy``,
    ``...caption_embeddings.npy``: a matrix of half floats, with the keys in a ``.txt`` next to it.
    ``.parquet``: key, shard, and img2dataset's columns from the samples' json. ``.npz``: a list of
    images for ``--near``, ``...embeddings.npz`` of embeddings, any other of hashes. Raises
    ValueError if samples lack a required value, OSError if the disk fails.
    """
    write = check_export(path)
    remove_stale(path.absolute().parent)
    return write(layout, records, path)


def _kept(layout: Layout, record: ShardRecord) -> Iterator[tuple[TarSample, Samples]]:
    """Yield the kept samples of a shard, from the shard that was written."""
    if record.output is None:
        return
    store = store_of(layout.folder)
    path = layout.tar(record.name)
    written = Shard.url(store.url_of(path)) if store else Shard.file(str(path))
    with open_source(written) as source:
        samples = Samples(source, contents=True)
        for sample in samples:
            yield sample, samples


def _json(sample: TarSample, samples: Samples) -> dict[str, object]:
    """Return the object in a sample's json; an empty one without it, or if it is damaged or something else."""
    row = sample.fields.get("json")
    if row is None:
        return {}
    try:
        tree = parse_json(samples.read(row))
    except ValueError:
        return {}
    return tree if isinstance(tree, dict) else {}


def _keys(layout: Layout, records: Sequence[ShardRecord], path: Path) -> int:
    keys: list[str] = []
    for record in records:
        keys += [sample.key for sample, _ in _kept(layout, record)]
    if any("\n" in key or "\r" in key for key in keys):
        raise ValueError("keys with line breaks cannot be listed in .txt; export to .parquet")
    text = "".join(f"{key}\n" for key in keys)
    write_file(path, text.encode("utf-8", "surrogateescape"))
    return len(keys)


def _uids(layout: Layout, records: Sequence[ShardRecord], path: Path) -> int:
    import numpy as np

    pairs: list[tuple[int, int]] = []
    missing = 0
    for record in records:
        for sample, samples in _kept(layout, record):
            uid = _json(sample, samples).get("uid")
            if isinstance(uid, str) and _UID.fullmatch(uid):
                pairs.append((int(uid[:16], 16), int(uid[16:], 16)))
            else:
                missing += 1
    if missing:
        raise ValueError(
            f"{missing:,} of the kept samples have no uid of 32 hexadecimal digits in their json"
        )
    sink = io.BytesIO()
    np.save(sink, np.array(sorted(pairs), np.dtype("u8,u8")))
    write_file(path, sink.getvalue())
    return len(pairs)


def _columns(layout: Layout, records: Sequence[ShardRecord], path: Path) -> int:
    count = 0
    with ParquetWriter(path.with_name(f".{path.name}.rows")) as writer:
        # The file has its columns even without samples.
        writer.add(_img2dataset_columns([]))
        for record in records:
            rows = [_row(record.name, sample, samples) for sample, samples in _kept(layout, record)]
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
    content = _json(sample, samples)
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


def _reference_list(layout: Layout, records: Sequence[ShardRecord], path: Path) -> int:
    """Write a list of images for ``phash_distance`` or ``embedding_distance``, and return its length."""
    import numpy as np

    if not path.name.endswith("embeddings.npz"):
        hashes: list[int] = []
        for record in records:
            hashes += [int(text, 16) for text in _hashes(layout.ledger(record.name))]
        distinct = np.array(sorted(set(hashes)), np.uint64)
        write_file(path, bytes_of_list("phash", distinct, {}))
        return len(hashes)
    column, _ = _embedding_column(layout, records, "image")
    parts = [values for _, values in _kept_vectors(layout, records, column)]
    # All ledgers have this column, so that the first one describes it.
    entries = read_metadata(layout.ledger(records[0].name)).get("embeddings", [])
    entry = next(entry for entry in entries if entry["column"] == column)
    metadata = {"model": entry["model"], "settings": entry["settings"]}
    write_file(path, bytes_of_list("embeddings", np.concatenate(parts), metadata))
    return sum(map(len, parts))


def _hashes(ledger: Path) -> Iterator[str]:
    """Yield the hashes of the kept samples' images. Raises LedgerError if phash was not computed."""
    samples, metadata = read_ledger(ledger)
    call = next((call for call in calls_of(metadata) if call.name == "phash"), None)
    if call is None:
        raise LedgerError(f"{ledger} has no phash for a list of hashes: add phash to --scores")
    for row in samples.rows:
        if row.outcome != "kept":
            continue
        value = samples.columns[call].get(row.number)
        # A list if the sample has several images. Others could not be computed.
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str):
                yield text


def embedding_kind(path: Path) -> str | None:
    """Return the kind of embeddings, image or caption, for a file of this name; None for other files."""
    for ending, kind in _EMBEDDING_ENDINGS.items():
        if path.name.endswith(ending):
            return kind
    return None


def write_embeddings(layout: Layout, records: Sequence[ShardRecord], path: Path) -> int:
    """Write float16 (n, d), and the n keys to a file ``.txt`` of the same name, one per line; return n.

    It has a row for each kept sample with an embedding, of its first image or caption, in the order
    of shards and samples. Raises ValueError if the ledgers have no embeddings, or those of several
    models; OSError if the disk fails.
    """
    kind = embedding_kind(path)
    column, size = _embedding_column(layout, records, str(kind))
    keys: list[str] = []
    with writing(path) as file:
        with os.fdopen(os.dup(file), "wb") as stream:
            _npy_header(stream, 0, size)
            for group, values in _kept_vectors(layout, records, column):
                keys += group
                stream.write(values.tobytes())
            stream.seek(0)
            _npy_header(stream, len(keys), size)
        if any("\n" in key or "\r" in key for key in keys):
            raise ValueError(f"keys with line breaks cannot be listed in the .txt next to {path}")
        write_file(path.with_suffix(".txt"), "".join(f"{key}\n" for key in keys).encode())
    return len(keys)


def _npy_header(stream: BinaryIO, rows: int, size: int) -> None:
    """Write numpy's header, of fixed length, with room for more rows."""
    from numpy.lib import format as npy

    npy.write_array_header_1_0(
        stream, {"descr": "<f2", "fortran_order": False, "shape": (rows, size)}
    )


def _embedding_column(layout: Layout, records: Sequence[ShardRecord], kind: str) -> tuple[str, int]:
    """Return the only column of that kind, and the length of its embeddings."""
    columns: dict[str, int] = {}
    for record in records:
        metadata = read_metadata(layout.ledger(record.name))
        for entry in metadata.get("embeddings", []):
            if entry["of"] == kind:
                columns[entry["column"]] = entry["size"]
    if not columns:
        raise LedgerError(
            f"the ledgers in {layout.folder} have no embeddings of {kind}s: filter with --embeddings"
        )
    if len(columns) > 1:
        raise LedgerError(
            f"the ledgers have several embeddings of {kind}s, and one list cannot hold them: {', '.join(columns)}"
        )
    return next(iter(columns.items()))


def _kept_vectors(
    layout: Layout, records: Sequence[ShardRecord], column: str
) -> "Iterator[tuple[list[str], NDArray[np.float16]]]":
    """Yield keys and embeddings of kept samples, a group of rows at a time."""
    import numpy as np

    for record in records:
        file = ParquetFile(layout.ledger(record.name))
        for start in range(0, file.rows, GROUP):
            arrays = file.arrays(["key", "outcome", column], start, start + GROUP)
            is_kept = np.ma.getdata(arrays["outcome"]) == "kept"
            has_vector = ~np.ma.getmaskarray(arrays[column])
            chosen = is_kept & has_vector
            vectors = np.ma.getdata(arrays[column])[chosen].tolist()
            if vectors:
                yield as_list(arrays["key"][chosen]), np.array(vectors, "<f2")
