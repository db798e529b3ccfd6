"""New embeddings of a shard: their columns in its ledger, and the file that collects them."""

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.recipe.recipe import canonical_json
from wdsflow.stages.scores.base import Score
from wdsflow.stages.scores.model.clip.clip_score import ClipScore, EmbeddingSpec
from wdsflow.table_files.parquet_columns import (
    Column,
    text_column,
    vector_column,
    vector_lists_column,
)

from .ledger_metadata import GROUP, KEYS, EmbeddingMetadata, distinct_names
from .sample_table import LedgerRow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]


class EmbeddingColumn(NamedTuple):
    """A column: ``name`` has the first embedding of each sample, ``more`` any further ones."""

    # Like a score: ``image_embedding(model="ViT-B-32", pretrained="openai")``.
    name: str
    more: str
    spec: EmbeddingSpec
    # Numbers of an embedding.
    size: int

    def metadata(self) -> EmbeddingMetadata:
        """Return the metadata: the model with hashes and versions, and its facts for decoders."""
        model = self.spec.model
        metadata: dict[str, object] = {
            "column": self.name,
            "more": self.more,
            "of": self.spec.kind,
            "settings": dict(self.spec.settings),
            "dtype": "float16",
            "size": self.size,
            "model": model.identity(),
            "facts": model.facts(),
        }
        # As it is read again: tuples become lists.
        plain: EmbeddingMetadata = json.loads(canonical_json(metadata))
        return plain


def columns_of(scores: Iterable[Score]) -> tuple[EmbeddingColumn, ...]:
    """Return the columns of the embeddings that scores need."""
    # Scores may share embeddings. A dict keeps their order.
    needed: dict[EmbeddingSpec, None] = {}
    for score in scores:
        if isinstance(score, ClipScore):
            needed |= dict.fromkeys(score.embedding_specs())
    names = [str(ScoreCall(f"{embedded.kind}_embedding", embedded.settings)) for embedded in needed]
    columns: list[EmbeddingColumn] = []
    for name, embedded in zip(distinct_names(names), needed, strict=True):
        columns.append(EmbeddingColumn(name, f"{name} more", embedded, embedded.model.size()))
    return tuple(columns)


class Spool:
    """Collects embeddings in an unnamed file, and returns them as columns.

    The file disappears with the process.
    """

    def __init__(self, columns: Sequence[EmbeddingColumn], folder: Path) -> None:
        self.columns = columns
        self._file = tempfile.TemporaryFile(dir=folder, buffering=1 << 20)  # noqa: SIM115 - closed by close
        self._end = 0
        # The position of each embedding in the file: by the number of the sample, and by column.
        self._positions: dict[int, dict[str, list[tuple[str, int]]]] = {}

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def column_of(self, embedded: EmbeddingSpec) -> str:
        """Return the name of the column of some embeddings."""
        return next(column.name for column in self.columns if column.spec == embedded)

    def add(self, column: str, row: LedgerRow, embeddings: "Sequence[tuple[str, Vector]]") -> None:
        """Add all (key, embedding) of a column for a sample, if their keys are new."""
        import numpy as np

        kept = self._positions.setdefault(row.number, {}).setdefault(column, [])
        stored = {key for key, _ in kept}
        for key, vector in embeddings:
            if key not in stored and np.isfinite(vector).all():
                data = vector.astype("<f2").tobytes()
                kept.append((key, self._end))
                self._file.write(data)
                self._end += len(data)

    def metadata(self) -> list[EmbeddingMetadata]:
        """Return the metadata of each column."""
        return [column.metadata() for column in self.columns]

    def groups(self, rows: Sequence[LedgerRow]) -> Iterator[dict[str, Column]]:
        """Yield the columns for 2,048 rows at a time."""
        self._file.flush()
        # Once for no rows: the file gets the columns.
        for start in range(0, max(len(rows), 1), GROUP):
            of_rows = [self._positions.get(row.number, {}) for row in rows[start : start + GROUP]]
            group: dict[str, Column] = {KEYS: text_column([_keys(of_row) for of_row in of_rows])}
            for column in self.columns:
                in_column = [of_row.get(column.name, ()) for of_row in of_rows]
                positions = [[position for _, position in pairs] for pairs in in_column]
                group[column.name] = self._firsts(positions, column.size)
                group[column.more] = self._others(positions, column.size)
            yield group

    def _firsts(self, positions: Sequence[Sequence[int]], size: int) -> Column:
        """Return the column of the first embedding of each row, given the positions of all."""
        import numpy as np

        missing = np.array([not of_row for of_row in positions], np.bool_)
        firsts = [of_row[0] if of_row else None for of_row in positions]
        return vector_column(self._read(firsts, size), missing)

    def _others(self, positions: Sequence[Sequence[int]], size: int) -> Column:
        """Return the column of the further embeddings of each row, given the positions of all."""
        others: list[NDArray[np.float32] | None] = []
        for of_row in positions:
            if len(of_row) > 1:
                others.append(self._read(of_row[1:], size))
            else:
                others.append(None)
        return vector_lists_column(others)

    def _read(self, positions: Sequence[int | None], size: int) -> "NDArray[np.float32]":
        """Return embeddings, (n, size); zeros for None."""
        import numpy as np

        # Half floats, of two bytes each.
        length = 2 * size
        parts: list[bytes] = []
        for position in positions:
            if position is None:
                parts.append(bytes(length))
            else:
                parts.append(os.pread(self._file.fileno(), length, position))
        halves = np.frombuffer(b"".join(parts), "<f2")
        return halves.astype(np.float32).reshape(len(positions), size)


def _keys(of_row: Mapping[str, Sequence[tuple[str, int]]]) -> str | None:
    """Return the keys of a row's embeddings by column, as JSON; None if it has none."""
    keys: dict[str, list[str]] = {}
    for column, pairs in of_row.items():
        if pairs:
            keys[column] = [key for key, _ in pairs]
    return json.dumps(keys, sort_keys=True) if keys else None
