"""The stored embeddings of the kept samples, as a matrix of numpy."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from wdsflow.filtering.ledger.ledger_metadata import GROUP, LedgerError, read_metadata
from wdsflow.records.run_folder import Layout, ShardRecord
from wdsflow.shards.atomic import atomic_file, write_file
from wdsflow.table_files.parquet_file import ParquetFile, as_list

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Ending of a file of embeddings -> what they are of.
_EMBEDDING_ENDINGS = {"image_embeddings.npy": "image", "caption_embeddings.npy": "caption"}


def embedding_kind(path: Path) -> str | None:
    """Return the kind of embeddings, image or caption, for a file of this name.

    None for other files.
    """
    for ending, kind in _EMBEDDING_ENDINGS.items():
        if path.name.endswith(ending):
            return kind
    return None


def write_embeddings(layout: Layout, records: Sequence[ShardRecord], path: Path) -> int:
    """Write embeddings as a float16 matrix (n, d), and their keys; return n.

    The n keys, one per line, go to a ``.txt`` of the same name, in the order of the rows of the
    matrix.

    It has a row for each kept sample with an embedding, of its first image or caption, in the order
    of shards and samples. Raises ValueError if the ledgers have no embeddings, or those of several
    models; OSError if the disk fails.
    """
    kind = embedding_kind(path)
    column, size = embedding_column(layout, records, str(kind))
    keys: list[str] = []
    with atomic_file(path) as file:
        with os.fdopen(os.dup(file), "wb") as stream:
            _npy_header(stream, 0, size)
            for group, values in kept_vectors(layout, records, column):
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


def embedding_column(layout: Layout, records: Sequence[ShardRecord], kind: str) -> tuple[str, int]:
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


def kept_vectors(
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
