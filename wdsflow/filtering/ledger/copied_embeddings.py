"""The embeddings of a ledger, copied to the ledger of a later pass."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.table_files.parquet_columns import (
    Column,
    text_column,
    vector_column,
    vector_lists_column,
)
from wdsflow.table_files.parquet_file import ParquetFile, as_list

from .ledger_metadata import (
    GROUP,
    KEYS,
    EmbeddingMetadata,
    LedgerError,
    embedding_columns,
    read_metadata,
)
from .sample_table import LedgerRow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class CopiedEmbeddings:
    """The unchanged embeddings of a ledger, for the ledger of a later pass."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._metadata = read_metadata(path)
        if not embedding_columns(self._metadata):
            raise LedgerError(f"{path} has no embeddings: measure with --embeddings first")

    def metadata(self) -> list[EmbeddingMetadata]:
        """Return the metadata of each column."""
        return list(self._metadata["embeddings"])

    def groups(self, rows: Sequence[LedgerRow]) -> Iterator[dict[str, Column]]:
        """Yield the columns as they were written, one group at a time."""
        file = ParquetFile(self._path)
        names = embedding_columns(self._metadata)
        # Once for no rows: the file gets the columns.
        for start in range(0, max(len(rows), 1), GROUP):
            arrays = file.arrays(names, start, start + GROUP)
            group: dict[str, Column] = {KEYS: text_column(as_list(arrays[KEYS]))}
            for entry in self._metadata["embeddings"]:
                column, more = entry["column"], entry["more"]
                group[column] = _vectors(arrays[column], entry["size"])
                group[more] = vector_lists_column(_lists(arrays[more]))
            yield group


def _vectors(cells: "NDArray[np.object_]", size: int) -> Column:
    """Return the column of the vectors of a column that was read."""
    import numpy as np

    missing = np.ma.getmaskarray(cells)
    vectors = np.zeros((len(cells), size), np.float32)
    for number in np.flatnonzero(~missing).tolist():
        vectors[number] = cells[number]
    return vector_column(vectors, missing)


def _lists(cells: "NDArray[np.object_]") -> "list[NDArray[np.float32] | None]":
    """Return the vectors of each row, (n, d), of a column of lists that was read."""
    import numpy as np

    lists: list[NDArray[np.float32] | None] = []
    for cell in as_list(cells):
        if cell is None:
            lists.append(None)
        else:
            lists.append(np.stack([np.asarray(vector, np.float32) for vector in cell]))
    return lists
