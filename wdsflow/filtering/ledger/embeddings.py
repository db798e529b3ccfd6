"""Embeddings in a ledger: their columns, the file that collects them, and matrices for other tools."""

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wdsflow.filtering.folder.layout import Layout
from wdsflow.filtering.folder.shard_record import ShardRecord
from wdsflow.filtering.ledger.arrow_columns import texts
from wdsflow.filtering.ledger.ledger_row import LedgerError, Row, read_about
from wdsflow.filtering.recipe.recipe import canonical
from wdsflow.filtering.where.language.values import Call
from wdsflow.shards.atomic import write_file, writing
from wdsflow.stages.scores.base import Score
from wdsflow.stages.scores.model.clip import ClipScore, Embedded

from .ledger_row import GROUP, KEYS

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


_MORE = " more"


class EmbeddingColumn(NamedTuple):
    """A column: ``name`` has the first embedding of each sample, ``more`` the others of a sample that has several."""

    name: str
    embedded: Embedded
    size: int  # numbers of an embedding

    @property
    def more(self) -> str:
        """The name of the column with further embeddings."""
        return f"{self.name}{_MORE}"

    def about(self) -> dict[str, Any]:
        """Return the metadata: the model with hashes and versions, and its facts for decoders."""
        model = self.embedded.model
        about = {
            "column": self.name,
            "more": self.more,
            "of": self.embedded.of,
            "settings": dict(self.embedded.settings),
            "dtype": "float16",
            "size": self.size,
            "model": model.identity(),
            "facts": model.facts(),
        }
        found: dict[str, Any] = json.loads(canonical(about))
        return found


def column_name(embedded: Embedded) -> str:
    """Return the name of a column, written like a score: ``image_embedding(model="ViT-B-32", pretrained="openai")``."""
    return str(Call(f"{embedded.of}_embedding", embedded.settings))


def columns_of(scores: Iterable[Score]) -> tuple[EmbeddingColumn, ...]:
    """Return the columns of the embeddings that scores need."""
    asked = dict.fromkeys(each for score in scores if isinstance(score, ClipScore) for each in score.embedded())
    return tuple(EmbeddingColumn(column_name(each), each, each.model.size()) for each in asked)


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
