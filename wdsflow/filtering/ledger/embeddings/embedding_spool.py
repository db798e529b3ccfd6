"""The embeddings of a shard until its ledger is written: on disk, because they may not fit into memory."""

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wdsflow.filtering.ledger.arrow_columns import texts
from wdsflow.filtering.ledger.ledger_row import Row
from wdsflow.stages.scores.model.models.embedded import Embedded

from ..ledger_metadata import GROUP, KEYS
from .embedding_columns import EmbeddingColumn, column_name

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

_BUFFER = 1 << 20


class Spool:
    """Takes embeddings, and returns them as columns. Its file has no name, and disappears with the process."""

    def __init__(self, columns: Sequence[EmbeddingColumn], folder: Path) -> None:
        self.columns = columns
        self._file = tempfile.TemporaryFile(dir=folder, buffering=_BUFFER)  # noqa: SIM115 - closed by close
        self._end = 0

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def add(self, row: Row, embedded: Embedded, found: Sequence[tuple[str, Any]]) -> None:
        """Add all (key, embedding) of one kind that a score has for a sample, if their keys are new."""
        self.add_to(column_name(embedded), row, found)

    def add_to(self, column: str, row: Row, found: Sequence[tuple[str, Any]]) -> None:
        """Add all (key, embedding) of a column for a sample, if their keys are new."""
        import numpy as np

        kept = row.embedded.setdefault(column, [])
        known = {key for key, _ in kept}
        for key, vector in found:
            if key not in known and np.isfinite(vector).all():
                data = vector.astype("<f2").tobytes()
                kept.append((key, self._end))
                self._file.write(data)
                self._end += len(data)

    def about(self) -> list[dict[str, Any]]:
        """Return the metadata of each column."""
        return [column.about() for column in self.columns]

    def groups(self, rows: Sequence[Row]) -> "Iterator[dict[str, pa.Array]]":
        """Yield the columns for 2,048 rows at a time."""
        self._file.flush()
        for start in range(0, max(len(rows), 1), GROUP):
            some = rows[start : start + GROUP]
            found: dict[str, pa.Array] = {KEYS: texts([_keys(row) for row in some])}
            for column in self.columns:
                places = [[place for _, place in row.embedded.get(column.name, ())] for row in some]
                found[column.name] = self._firsts(places, column.size)
                found[column.more] = self._others(places, column.size)
            yield found

    def _firsts(self, places: list[list[int]], size: int) -> "pa.Array":
        import numpy as np
        import pyarrow as pa

        lacking = [not each for each in places]
        values = self._read([each[0] if each else None for each in places], size)
        return pa.FixedSizeListArray.from_arrays(halves(values), size, mask=pa.array(np.array(lacking, bool)))

    def _others(self, places: list[list[int]], size: int) -> "pa.Array":
        import numpy as np
        import pyarrow as pa

        others = [each[1:] for each in places]
        offsets = np.cumsum([0, *map(len, others)]).astype("i4")
        values = self._read([place for each in others for place in each], size)
        inner = pa.FixedSizeListArray.from_arrays(halves(values), size)
        lacking = pa.array(np.array([not each for each in others], bool))
        return pa.ListArray.from_arrays(pa.array(offsets), inner, mask=lacking)

    def _read(self, places: Sequence[int | None], size: int) -> "NDArray[Any]":
        """Return an array (places, size); zeros for None."""
        import numpy as np

        found = np.zeros((len(places), size), "<f2")
        for row, place in enumerate(places):
            if place is not None:
                found[row] = np.frombuffer(os.pread(self._file.fileno(), 2 * size, place), "<f2")
        return found


def halves(values: "NDArray[Any]") -> "pa.Array":
    """Return half floats as a column, without a copy."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.float16(), values.size, [None, pa.py_buffer(values)])


def _keys(row: Row) -> str | None:
    found = {name: [key for key, _ in kept] for name, kept in row.embedded.items() if kept}
    return json.dumps(found, sort_keys=True) if found else None
