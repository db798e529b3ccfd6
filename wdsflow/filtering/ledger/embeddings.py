"""Embeddings in a ledger: their columns, the file that collects them, and reuse of those of an earlier run."""

import json
import os
import tempfile
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.recipe.recipe import canonical, differences, digest
from wdsflow.filtering.recipe.recipe_stages import written_stages
from wdsflow.records.run_folder import Layout, ShardRecord
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import SourceError
from wdsflow.stages.base import SampleStage
from wdsflow.stages.scores.base import Score
from wdsflow.stages.scores.model.clip.clip_score import ClipScore, Embedded, embedding_key
from wdsflow.stages.scores.model.clip.towers import ClipImage, ClipText
from wdsflow.stages.scores.model.model import Model, Output
from wdsflow.stages.scores.model.model_score import ModelScore, Request
from wdsflow.table_files.parquet_columns import (
    Column,
    text_column,
    vector_column,
    vector_lists_column,
)
from wdsflow.table_files.parquet_file import ParquetError, ParquetFile, as_list

from .ledger_metadata import (
    GROUP,
    KEYS,
    EmbeddingMetadata,
    LedgerError,
    LedgerMetadata,
    distinct_names,
    embedding_columns,
    no_ledgers,
    read_metadata,
    same_shard,
)
from .sample_table import Row

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]


class EmbeddingColumn(NamedTuple):
    """A column: ``name`` has the first embedding of each sample, ``more`` any further ones."""

    # Like a score: ``image_embedding(model="ViT-B-32", pretrained="openai")``.
    name: str
    more: str
    embedded: Embedded
    # Numbers of an embedding.
    size: int

    def metadata(self) -> EmbeddingMetadata:
        """Return the metadata: the model with hashes and versions, and its facts for decoders."""
        of, model = self.embedded.of, self.embedded.model
        metadata: dict[str, object] = {
            "column": self.name,
            "more": self.more,
            "of": of,
            "settings": dict(self.embedded.settings),
        }
        metadata |= {
            "dtype": "float16",
            "size": self.size,
            "model": model.identity(),
            "facts": model.facts(),
        }
        plain: EmbeddingMetadata = json.loads(canonical(metadata))
        return plain


def columns_of(scores: Iterable[Score]) -> tuple[EmbeddingColumn, ...]:
    """Return the columns of the embeddings that scores need."""
    needed: dict[Embedded, None] = {}
    for score in scores:
        if isinstance(score, ClipScore):
            needed |= dict.fromkeys(score.embedded())
    names = [str(ScoreCall(f"{embedded.of}_embedding", embedded.settings)) for embedded in needed]
    return tuple(
        EmbeddingColumn(name, f"{name} more", embedded, embedded.model.size())
        for name, embedded in zip(distinct_names(names), needed, strict=True)
    )


class Spool:
    """Collects embeddings and returns them as columns, in an unnamed file that disappears with the process."""

    def __init__(self, columns: Sequence[EmbeddingColumn], folder: Path) -> None:
        self.columns = columns
        self._file = tempfile.TemporaryFile(dir=folder, buffering=1 << 20)  # noqa: SIM115 - closed by close
        self._end = 0
        # The position of each embedding in the file: by the number of the sample, and by column.
        self._positions: dict[int, dict[str, list[tuple[str, int]]]] = {}

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def column_of(self, embedded: Embedded) -> str:
        """Return the name of the column of some embeddings."""
        return next(column.name for column in self.columns if column.embedded == embedded)

    def add(self, column: str, row: Row, embeddings: "Sequence[tuple[str, Vector]]") -> None:
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

    def groups(self, rows: Sequence[Row]) -> Iterator[dict[str, Column]]:
        """Yield the columns for 2,048 rows at a time."""
        self._file.flush()
        for start in range(0, max(len(rows), 1), GROUP):
            stored = [self._positions.get(row.number, {}) for row in rows[start : start + GROUP]]
            keys = []
            for columns in stored:
                named = {
                    name: [key for key, _ in pairs] for name, pairs in columns.items() if pairs
                }
                keys.append(json.dumps(named, sort_keys=True) if named else None)
            group: dict[str, Column] = {KEYS: text_column(keys)}
            for column in self.columns:
                positions = [
                    [position for _, position in columns.get(column.name, ())] for columns in stored
                ]
                group[column.name] = self._firsts(positions, column.size)
                others = [
                    self._read(some[1:], column.size) if some[1:] else None for some in positions
                ]
                group[column.more] = vector_lists_column(others)
            yield group

    def _firsts(self, positions: list[list[int]], size: int) -> Column:
        import numpy as np

        missing = np.array([not some for some in positions], np.bool_)
        return vector_column(
            self._read([some[0] if some else None for some in positions], size), missing
        )

    def _read(self, positions: Sequence[int | None], size: int) -> "NDArray[np.float32]":
        """Return embeddings, (n, size); zeros for None."""
        import numpy as np

        parts = [
            bytes(2 * size)
            if position is None
            else os.pread(self._file.fileno(), 2 * size, position)
            for position in positions
        ]
        return (
            np.frombuffer(b"".join(parts), "<f2").astype(np.float32).reshape(len(positions), size)
        )


# Columns of a ledger, by the model that computes the same.
Entries = dict[Model, list[EmbeddingMetadata]]


def _served(
    metadata: LedgerMetadata, models: Sequence[Model], path: Path
) -> tuple[Entries, tuple[str, ...]]:
    """Return the columns of a ledger that serve models, and lines on why it lacks those of others. Raises LedgerError."""
    columns = metadata.get("embeddings", [])
    if not columns:
        raise LedgerError(f"{path} has no embeddings: measure with --embeddings first")
    entries: Entries = {}
    missing: list[str] = []
    for model in models:
        if not isinstance(model, (ClipImage, ClipText)):
            continue
        identity = json.loads(canonical(model.identity()))
        if same := [column for column in columns if column["model"] == identity]:
            entries[model] = same
            continue
        required = f"{model.kind} {model.model!r}, {model.pretrained!r}, {model.precision}"
        reasons = [f"it has those of the {columns[0]['model']['kind']}"]
        models_of_kind = [
            column["model"] for column in columns if column["model"]["kind"] == identity["kind"]
        ]
        if models_of_kind:
            changes = [list(differences(other, identity)) for other in models_of_kind]
            reasons = min(changes, key=len) or reasons
        missing.append(f"{path} has none of the {required}: {'; '.join(reasons)}")
    if not entries:
        raise LedgerError(
            "\n".join(missing)
            or "--embeddings-from is for scores of a CLIP, and the recipe has none"
        )
    # Decoders need facts; models are loaded only if embeddings are missing.
    for served, same in entries.items():
        served.recall(same[0]["facts"])
    return entries, tuple(missing)


class StoredEmbeddings:
    """The embeddings of one shard, read one group of rows at a time."""

    def __init__(self, path: Path, entries: Entries) -> None:
        self._file = ParquetFile(path)
        self._rows = self._file.rows
        self._entries = entries
        columns: dict[str, EmbeddingMetadata] = {}
        self._names: list[str] = []
        for same in entries.values():
            columns |= {entry["column"]: entry for entry in same}
        self._all = list(columns.values())
        for entry in self._all:
            self._names += [entry["column"], entry["more"]]
        self._groups: OrderedDict[int, _Group] = OrderedDict()

    def find(self, row: Row, model: Model, key: str) -> "Vector | None":
        """Return an embedding, float32, or None if the ledger does not have it. Raises SourceError."""
        if model not in self._entries or row.number >= self._rows:
            return None
        group = self._group(row)
        for entry in self._entries[model]:
            keys = group.keys[row.number % GROUP].get(entry["column"], [])
            if key in keys:
                return group.vector(row, entry, keys.index(key))
        return None

    def all_of(self, row: Row) -> "Iterator[tuple[str, list[tuple[str, Vector]]]]":
        """Yield each column with its (key, embedding) pairs of a sample. Raises SourceError."""
        if row.number >= self._rows:
            return
        group = self._group(row)
        for entry in self._all:
            keys = group.keys[row.number % GROUP].get(entry["column"], [])
            vectors = [(key, group.vector(row, entry, number)) for number, key in enumerate(keys)]
            yield entry["column"], vectors

    def _group(self, row: Row) -> "_Group":
        """Return the group of a sample; the last two are held for samples that wait for a model. Raises SourceError."""
        number = row.number // GROUP
        if number not in self._groups:
            try:
                columns = self._file.arrays(
                    [KEYS, *self._names], number * GROUP, (number + 1) * GROUP
                )
            except (ParquetError, OSError) as error:
                # A fault of the shard, not of a sample.
                raise SourceError("io", str(error)) from None
            keys = [json.loads(keys) if keys else {} for keys in as_list(columns.pop(KEYS))]
            self._groups[number] = _Group(keys, columns)
            if len(self._groups) > 2:
                self._groups.popitem(last=False)
        return self._groups[number]


class _Group(NamedTuple):
    """Rows of a ledger: of each row, the keys by column; and the columns."""

    keys: "list[dict[str, list[str]]]"
    columns: "dict[str, NDArray[np.object_]]"

    def vector(self, row: Row, entry: EmbeddingMetadata, number: int) -> "Vector":
        """Return an embedding of a row by its number among those of a column."""
        import numpy as np

        cell = self.columns[entry["more" if number else "column"]][row.number % GROUP]
        return np.asarray(cell[number - 1] if number else cell, np.float32)


class CopiedEmbeddings:
    """The unchanged embeddings of a ledger, for the ledger of a later pass."""

    def __init__(self, path: Path) -> None:
        self._path, self._metadata = path, read_metadata(path)
        if not embedding_columns(self._metadata):
            raise LedgerError(f"{path} has no embeddings: measure with --embeddings first")

    def metadata(self) -> list[EmbeddingMetadata]:
        """Return the metadata of each column."""
        return list(self._metadata["embeddings"])

    def groups(self, rows: Sequence[Row]) -> Iterator[dict[str, Column]]:
        """Yield the columns as they were written, one group at a time."""
        file = ParquetFile(self._path)
        for start in range(0, max(len(rows), 1), GROUP):
            arrays = file.arrays(embedding_columns(self._metadata), start, start + GROUP)
            group: dict[str, Column] = {KEYS: text_column(as_list(arrays[KEYS]))}
            for entry in self._metadata["embeddings"]:
                group[entry["column"]] = _vectors(arrays[entry["column"]], entry["size"])
                group[entry["more"]] = vector_lists_column(_lists(arrays[entry["more"]]))
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

    return [
        None if cell is None else np.stack([np.asarray(vector, np.float32) for vector in cell])
        for cell in as_list(cells)
    ]


class Reuse(NamedTuple):
    """The folder of an earlier run, the models whose embeddings it has, a digest of its ledgers, and missing models."""

    layout: Layout
    served: frozenset[Model]
    digest: str
    missing: tuple[str, ...]


def reuse_of(
    ledger: str | os.PathLike[str],
    names: Sequence[str],
    models: Sequence[Model],
    stages: Sequence[SampleStage],
) -> Reuse:
    """Return the embeddings that a run may reuse from the ledgers of these shards. Each ledger is checked again later.

    Raises LedgerError if one is missing, or if the first has embeddings of none of the models.
    """
    layout = Layout(Path(ledger))
    if not layout.inside.is_dir():
        raise no_ledgers(layout.folder)
    try:
        marks = [fingerprint(str(layout.ledger(name))) for name in names]
    except OSError as error:
        raise LedgerError(f"a ledger is missing in {layout.folder}: {error}") from None
    first = layout.ledger(names[0])
    entries, missing = _served_by(models, stages, read_metadata(first), first)
    return Reuse(layout, frozenset(entries), digest(marks), missing)


def stored_embeddings(
    models: Sequence[Model], stages: Sequence[SampleStage], record: ShardRecord, reuse: Reuse
) -> StoredEmbeddings:
    """Return the embeddings of a shard. Raises LedgerError if shard or stages differ, or some are missing."""
    path = reuse.layout.ledger(record.name)
    metadata = read_metadata(path)
    same_shard(metadata, record, path)
    entries, missing = _served_by(models, stages, metadata, path)
    if entries.keys() != reuse.served:
        raise LedgerError("\n".join(missing) or f"{path} has more embeddings than the first ledger")
    return StoredEmbeddings(path, entries)


def current_embeddings(
    models: Sequence[Model], metadata: LedgerMetadata, path: Path
) -> StoredEmbeddings | None:
    """Return the embeddings of a ledger that gets more scores; None if it has none."""
    return (
        StoredEmbeddings(path, _served(metadata, models, path)[0])
        if metadata.get("embeddings")
        else None
    )


def _served_by(
    models: Sequence[Model], stages: Sequence[SampleStage], metadata: LedgerMetadata, path: Path
) -> tuple[Entries, tuple[str, ...]]:
    if metadata["recipe"].get("stages", []) != written_stages(stages):
        raise LedgerError(f"{path} was measured with other stages than those of the recipe")
    return _served(metadata, models, path)


class ShardEmbeddings(AbstractContextManager["ShardEmbeddings"]):
    """Finds embeddings in the ledger of an earlier run, if there is one, and keeps those of this run, if requested.

    ``current``: those that the shard's ledger has already. They are kept unchanged.
    """

    def __init__(
        self,
        *,
        spool: Spool | None = None,
        stored: StoredEmbeddings | None = None,
        current: StoredEmbeddings | None = None,
    ) -> None:
        self.spool = spool
        self._stored = stored
        self._current = current
        self.in_use = spool is not None or stored is not None or current is not None

    def __exit__(self, *_: object) -> None:
        """Close the file of new embeddings."""
        if self.spool is not None:
            self.spool.close()

    def find(self, row: Row, request: Request) -> Output | None:
        """Return the output of a request if it is already known."""
        if not isinstance(request.model, (ClipImage, ClipText)):
            return None
        key = embedding_key(request)
        for ledger in (self._current, self._stored):
            if ledger is not None:
                vector = ledger.find(row, request.model, key)
                if vector is not None:
                    return vector
        return None

    def keep_current(self, row: Row) -> None:
        """Keep the embeddings that the ledger has of a sample. Raises SourceError, OSError if the disk fails."""
        if self.spool is not None and self._current is not None:
            for column, embeddings in self._current.all_of(row):
                self.spool.add(column, row, embeddings)

    def keep(
        self, row: Row, score: ModelScore, requests: Sequence[Request], outputs: Sequence[Output]
    ) -> None:
        """Keep all embeddings of a sample that a score requested. Raises OSError if the disk fails."""
        if self.spool is None or not isinstance(score, ClipScore):
            return
        for embedded in score.embedded():
            embeddings = []
            for request, output in zip(requests, outputs, strict=True):
                if request.model == embedded.model:
                    embeddings.append((embedding_key(request), output))
            self.spool.add(self.spool.column_of(embedded), row, embeddings)
