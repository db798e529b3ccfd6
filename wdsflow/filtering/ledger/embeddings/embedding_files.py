"""Embeddings of kept samples as one matrix, with their keys in a second file."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wdsflow.filtering.folder.layout import Layout
from wdsflow.filtering.folder.shard_record import ShardRecord
from wdsflow.filtering.ledger.ledger_metadata import LedgerError, read_about
from wdsflow.shards.atomic import write_file, writing

if TYPE_CHECKING:
    from numpy.typing import NDArray

ENDINGS = {"image_embeddings.npy": "image", "caption_embeddings.npy": "caption"}


def kind_of(path: Path) -> str | None:
    """Return whether a file of this name is for embeddings of images or of captions, None if it is for neither."""
    return next((kind for ending, kind in ENDINGS.items() if path.name.endswith(ending)), None)


def write_embeddings(layout: Layout, records: Sequence[ShardRecord], path: Path) -> int:
    """Write float16 (n, d), and the n keys to a file ``.txt`` of the same name, one per line; return n.

    It has a row for each kept sample with an embedding, of its first image or caption, in the order of shards and
    samples. Raises ValueError if the ledgers have no embeddings, or those of several models; OSError if the disk fails.
    """
    kind = kind_of(path)
    column, size = _column(layout, records, str(kind))
    keys: list[str] = []
    with writing(path) as file:
        with os.fdopen(os.dup(file), "wb") as stream:
            _header(stream, 0, size)
            for found, values in _kept(layout, records, column):
                keys += found
                stream.write(values.tobytes())
            stream.seek(0)
            _header(stream, len(keys), size)
        if any("\n" in key or "\r" in key for key in keys):
            raise ValueError(f"keys with line breaks cannot be listed in the .txt next to {path}")
        write_file(path.with_suffix(".txt"), "".join(f"{key}\n" for key in keys).encode())
    return len(keys)


def _header(stream: Any, rows: int, size: int) -> None:
    """Write numpy's header, of fixed length, with room for more rows."""
    from numpy.lib import format as npy

    npy.write_array_header_1_0(stream, {"descr": "<f2", "fortran_order": False, "shape": (rows, size)})


def _column(layout: Layout, records: Sequence[ShardRecord], kind: str) -> tuple[str, int]:
    """Return the only column of that kind, and the length of its embeddings."""
    columns: dict[str, int] = {}
    for record in records:
        about = read_about(layout.ledger(record.name))
        columns |= {entry["column"]: entry["size"] for entry in about.get("embeddings", []) if entry["of"] == kind}
    if not columns:
        raise LedgerError(f"the ledgers in {layout.folder} have no embeddings of {kind}s: filter with --embeddings")
    if len(columns) > 1:
        raise LedgerError(
            f"the ledgers have several embeddings of {kind}s, and one list cannot hold them: {', '.join(columns)}"
        )
    return next(iter(columns.items()))


def _kept(layout: Layout, records: Sequence[ShardRecord], column: str) -> "Iterator[tuple[list[str], NDArray[Any]]]":
    """Yield keys and embeddings of kept samples, a group of rows at a time."""
    import numpy as np
    import pyarrow.parquet as pq

    for record in records:
        with pq.ParquetFile(layout.ledger(record.name)) as file:
            for number in range(file.num_row_groups):
                table = file.read_row_group(number, columns=["key", "outcome", column])
                vectors = table.column(column).combine_chunks()
                kept = np.array([each == "kept" for each in table.column("outcome").to_pylist()], bool)
                chosen = kept & vectors.is_valid().to_numpy(zero_copy_only=False)
                keys = table.column("key").to_pylist()
                width = vectors.type.list_size
                start, stop = vectors.offset * width, (vectors.offset + len(vectors)) * width
                numbers = vectors.values.to_numpy(zero_copy_only=False)[start:stop].reshape(len(vectors), width)
                yield [key for key, own in zip(keys, chosen, strict=True) if own], numbers[chosen].astype("<f2")
