"""The embeddings in the ledger of a shard, for models that compute the same."""

import json
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wdsflow.shards.source.base import SourceError
from wdsflow.stages.scores.model.model import Model
from wdsflow.table_files.parquet_file import ParquetError, ParquetFile, as_list

from .ledger_metadata import GROUP, KEYS, EmbeddingMetadata
from .sample_table import LedgerRow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

# Columns of a ledger, by the model that computes the same.
Entries = dict[Model, list[EmbeddingMetadata]]
# Groups of rows that are held, for samples that wait for a model.
_MOST_GROUPS = 2


class StoredEmbeddings:
    """The embeddings of one shard, read one group of rows at a time."""

    def __init__(self, path: Path, entries: Entries) -> None:
        self._file = ParquetFile(path)
        self._rows = self._file.rows
        self._entries = entries
        # Several models may share a column.
        columns: dict[str, EmbeddingMetadata] = {}
        for same_model in entries.values():
            for entry in same_model:
                columns[entry["column"]] = entry
        self._all = list(columns.values())
        self._names: list[str] = []
        for entry in self._all:
            self._names += [entry["column"], entry["more"]]
        self._groups: OrderedDict[int, _Group] = OrderedDict()

    def find(self, row: LedgerRow, model: Model, key: str) -> "Vector | None":
        """Return an embedding as float32; None if the ledger does not have it.

        Raises SourceError.
        """
        if model not in self._entries or row.number >= self._rows:
            return None
        group = self._group(row)
        for entry in self._entries[model]:
            keys = group.keys_of(row, entry)
            if key in keys:
                return group.vector(row, entry, keys.index(key))
        return None

    def all_of(self, row: LedgerRow) -> "Iterator[tuple[str, list[tuple[str, Vector]]]]":
        """Yield each column with its (key, embedding) pairs of a sample. Raises SourceError."""
        if row.number >= self._rows:
            return
        group = self._group(row)
        for entry in self._all:
            vectors: list[tuple[str, Vector]] = []
            for number, key in enumerate(group.keys_of(row, entry)):
                vectors.append((key, group.vector(row, entry, number)))
            yield entry["column"], vectors

    def _group(self, row: LedgerRow) -> "_Group":
        """Return the group of a sample. Raises SourceError."""
        number = row.number // GROUP
        if number not in self._groups:
            self._groups[number] = self._read(number * GROUP)
            if len(self._groups) > _MOST_GROUPS:
                self._groups.popitem(last=False)
        return self._groups[number]

    def _read(self, start: int) -> "_Group":
        """Return the group that begins at a row. Raises SourceError."""
        try:
            columns = self._file.arrays([KEYS, *self._names], start, start + GROUP)
        except (ParquetError, OSError) as error:
            # A fault of the shard, not of a sample.
            raise SourceError("io", str(error)) from None
        keys = [json.loads(keys) if keys else {} for keys in as_list(columns.pop(KEYS))]
        return _Group(keys, columns)


class _Group(NamedTuple):
    """Rows of a ledger: of each row, the keys by column; and the columns."""

    keys: "list[dict[str, list[str]]]"
    columns: "dict[str, NDArray[np.object_]]"

    def keys_of(self, row: LedgerRow, entry: EmbeddingMetadata) -> list[str]:
        """Return the keys of the embeddings of a row in a column, in order."""
        return self.keys[row.number % GROUP].get(entry["column"], [])

    def vector(self, row: LedgerRow, entry: EmbeddingMetadata, number: int) -> "Vector":
        """Return an embedding of a row by its number among those of a column."""
        import numpy as np

        position = row.number % GROUP
        if number == 0:
            return np.asarray(self.columns[entry["column"]][position], np.float32)
        # The first embedding is not among the others.
        others = self.columns[entry["more"]][position]
        return np.asarray(others[number - 1], np.float32)
