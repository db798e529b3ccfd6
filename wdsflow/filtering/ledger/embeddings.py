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
from wdsflow.filtering.run_folder import Layout, ShardRecord
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import SourceError
from wdsflow.stages.base import SampleStage
from wdsflow.stages.scores.base import Score
from wdsflow.stages.scores.model.clip import ClipScore, Embedded, embedding_key
from wdsflow.stages.scores.model.clip_model import ClipImage, ClipText
from wdsflow.stages.scores.model.model_score import Model, ModelScore, Output, Request

from .ledger import texts
from .ledger_metadata import (
    GROUP,
    KEYS,
    About,
    EmbeddingAbout,
    LedgerError,
    embedding_columns,
    no_ledgers,
    read_about,
    same_shard,
)
from .sample_table import Row

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]


class EmbeddingColumn(NamedTuple):
    """A column: ``name`` has the first embedding of each sample, ``more`` any further ones."""

    name: str  # like a score: ``image_embedding(model="ViT-B-32", pretrained="openai")``
    more: str
    embedded: Embedded
    size: int  # numbers of an embedding

    @staticmethod
    def of(embedded: Embedded) -> "EmbeddingColumn":
        """Return the column of some embeddings."""
        name = str(ScoreCall(f"{embedded.of}_embedding", embedded.settings))
        return EmbeddingColumn(name, f"{name} more", embedded, embedded.model.size())

    def about(self) -> EmbeddingAbout:
        """Return the metadata: the model with hashes and versions, and its facts for decoders."""
        of, model = self.embedded.of, self.embedded.model
        about: dict[str, object] = {
            "column": self.name,
            "more": self.more,
            "of": of,
            "settings": dict(self.embedded.settings),
        }
        about |= {"dtype": "float16", "size": self.size, "model": model.identity(), "facts": model.facts()}
        plain: EmbeddingAbout = json.loads(canonical(about))
        return plain


def columns_of(scores: Iterable[Score]) -> tuple[EmbeddingColumn, ...]:
    """Return the columns of the embeddings that scores need."""
    asked = dict.fromkeys(each for score in scores if isinstance(score, ClipScore) for each in score.embedded())
    return tuple(map(EmbeddingColumn.of, asked))


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

    def add(self, column: str, row: Row, found: "Sequence[tuple[str, Vector]]") -> None:
        """Add all (key, embedding) of a column for a sample, if their keys are new."""
        import numpy as np

        kept = self._positions.setdefault(row.number, {}).setdefault(column, [])
        known = {key for key, _ in kept}
        for key, vector in found:
            if key not in known and np.isfinite(vector).all():
                data = vector.astype("<f2").tobytes()
                kept.append((key, self._end))
                self._file.write(data)
                self._end += len(data)

    def about(self) -> list[EmbeddingAbout]:
        """Return the metadata of each column."""
        return [column.about() for column in self.columns]

    def groups(self, rows: Sequence[Row]) -> "Iterator[dict[str, pa.Array]]":
        """Yield the columns for 2,048 rows at a time."""
        self._file.flush()
        for start in range(0, max(len(rows), 1), GROUP):
            some = [self._positions.get(row.number, {}) for row in rows[start : start + GROUP]]
            kept = [{name: [key for key, _ in each] for name, each in columns.items() if each} for columns in some]
            keys = texts([json.dumps(each, sort_keys=True) if each else None for each in kept])
            found: dict[str, pa.Array] = {KEYS: keys}
            for column in self.columns:
                places = [[place for _, place in columns.get(column.name, ())] for columns in some]
                found[column.name] = self._firsts(places, column.size)
                found[column.more] = self._others(places, column.size)
            yield found

    def _firsts(self, places: list[list[int]], size: int) -> "pa.Array":
        import numpy as np
        import pyarrow as pa

        values = self._read([each[0] if each else None for each in places], size)
        lacking = pa.array(np.array([not each for each in places], bool))
        return pa.FixedSizeListArray.from_arrays(values, size, mask=lacking)

    def _others(self, places: list[list[int]], size: int) -> "pa.Array":
        import numpy as np
        import pyarrow as pa

        others = [each[1:] for each in places]
        offsets = pa.array(np.cumsum([0, *map(len, others)]).astype("i4"))
        inner = pa.FixedSizeListArray.from_arrays(self._read([place for each in others for place in each], size), size)
        lacking = pa.array(np.array([not each for each in others], bool))
        return pa.ListArray.from_arrays(offsets, inner, mask=lacking)

    def _read(self, places: Sequence[int | None], size: int) -> "pa.Array":
        """Return the numbers of embeddings, one after the other; zeros for None."""
        import pyarrow as pa

        parts = (
            bytes(2 * size) if place is None else os.pread(self._file.fileno(), 2 * size, place) for place in places
        )
        return pa.Array.from_buffers(pa.float16(), len(places) * size, [None, pa.py_buffer(b"".join(parts))])


Entries = dict[Model, list[EmbeddingAbout]]  # columns of a ledger, by the model that computes the same


def _served(about: About, models: Sequence[Model], path: Path) -> tuple[Entries, tuple[str, ...]]:
    """Return the columns of a ledger that serve models, and lines on why it lacks those of others. Raises LedgerError."""
    columns = about.get("embeddings", [])
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
        wanted = f"{model.kind} {model.model!r}, {model.pretrained!r}, {model.precision}"
        alike = [column["model"] for column in columns if column["model"]["kind"] == identity["kind"]]
        why = min((list(differences(other, identity)) for other in alike), key=len, default=None)
        why = why or [f"it has those of the {columns[0]['model']['kind']}"]
        missing.append(f"{path} has none of the {wanted}: {'; '.join(why)}")
    if not entries:
        raise LedgerError("\n".join(missing) or "--embeddings-from is for scores of a CLIP, and the recipe has none")
    for served, found in entries.items():  # decoders need facts; models are loaded only if embeddings are missing
        served.recall(found[0]["facts"])
    return entries, tuple(missing)


class StoredEmbeddings:
    """The embeddings of one shard, read one group of rows at a time."""

    def __init__(self, path: Path, entries: Entries) -> None:
        import pyarrow.parquet as pq

        self._path, self._file = path, pq.ParquetFile(path)
        self._entries = entries
        self._all = list({entry["column"]: entry for each in entries.values() for entry in each}.values())
        self._names = [each for entry in self._all for each in (entry["column"], entry["more"])]
        self._groups: OrderedDict[int, _Group] = OrderedDict()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def find(self, row: Row, model: Model, key: str) -> "Vector | None":
        """Return an embedding, float32, or None if the ledger does not have it. Raises SourceError."""
        if model not in self._entries or row.number >= self._file.metadata.num_rows:
            return None
        group = self._group(row)
        for entry in self._entries[model]:
            keys = group.keys[row.number % GROUP].get(entry["column"], [])
            if key in keys:
                return group.vector(row, entry, keys.index(key))
        return None

    def all_of(self, row: Row) -> "Iterator[tuple[str, list[tuple[str, Vector]]]]":
        """Yield each column with its (key, embedding) pairs of a sample. Raises SourceError."""
        if row.number >= self._file.metadata.num_rows:
            return
        group = self._group(row)
        for entry in self._all:
            keys = group.keys[row.number % GROUP].get(entry["column"], [])
            yield entry["column"], [(key, group.vector(row, entry, place)) for place, key in enumerate(keys)]

    def _group(self, row: Row) -> "_Group":
        """Return the group of a sample; the last two are held for samples that wait for a model."""
        import pyarrow as pa

        number = row.number // GROUP
        if number not in self._groups:
            try:
                table = self._file.read_row_group(number, columns=[KEYS, *self._names])
            except (pa.ArrowException, OSError) as error:  # a fault of the shard, not of a sample
                raise SourceError("io", f"{self._path} cannot be read: {error}") from None
            keys = [json.loads(keys) if keys else {} for keys in table.column(KEYS).to_pylist()]
            self._groups[number] = _Group(keys, {name: table.column(name).combine_chunks() for name in self._names})
            if len(self._groups) > 2:
                self._groups.popitem(last=False)
        return self._groups[number]


class _Group(NamedTuple):
    """Rows of a ledger: of each row, the keys by column; and the columns."""

    keys: "list[dict[str, list[str]]]"
    columns: "dict[str, pa.Array]"

    def vector(self, row: Row, entry: EmbeddingAbout, place: int) -> "Vector":
        """Return an embedding of a row by its place among those of a column."""
        found = self.columns[entry["more" if place else "column"]][row.number % GROUP].values
        numbers = found[place - 1].values if place else found
        vector: Vector = numbers.to_numpy(zero_copy_only=False).astype("float32")
        return vector


class CopiedEmbeddings:
    """The unchanged embeddings of a ledger, for the ledger of a later pass."""

    def __init__(self, path: Path) -> None:
        self._path, self._about = path, read_about(path)
        if not embedding_columns(self._about):
            raise LedgerError(f"{path} has no embeddings: measure with --embeddings first")

    def about(self) -> list[EmbeddingAbout]:
        """Return the metadata of each column."""
        return list(self._about["embeddings"])

    def groups(self, _: Sequence[Row]) -> "Iterator[dict[str, pa.Array]]":
        """Yield the columns as they were written, one group at a time."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(self._path) as file:
            for number in range(file.num_row_groups):
                table = file.read_row_group(number, columns=embedding_columns(self._about))
                yield {name: table.column(name).combine_chunks() for name in table.column_names}


class Reuse(NamedTuple):
    """The folder of an earlier run, the models whose embeddings it has, a digest of its ledgers, and missing models."""

    layout: Layout
    served: frozenset[Model]
    digest: str
    missing: tuple[str, ...]


def reuse_of(
    ledger: str | os.PathLike[str], names: Sequence[str], models: Sequence[Model], stages: Sequence[SampleStage]
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
    entries, missing = _served_by(models, stages, read_about(first), first)
    return Reuse(layout, frozenset(entries), digest(marks), missing)


def stored_embeddings(
    models: Sequence[Model], stages: Sequence[SampleStage], record: ShardRecord, reuse: Reuse
) -> StoredEmbeddings:
    """Return the embeddings of a shard. Raises LedgerError if shard or stages differ, or some are missing."""
    path = reuse.layout.ledger(record.name)
    about = read_about(path)
    same_shard(about, record, path)
    entries, missing = _served_by(models, stages, about, path)
    if entries.keys() != reuse.served:
        raise LedgerError("\n".join(missing) or f"{path} has more embeddings than the first ledger")
    return StoredEmbeddings(path, entries)


def own_embeddings(models: Sequence[Model], about: About, path: Path) -> StoredEmbeddings | None:
    """Return the embeddings of a ledger that gets more scores; None if it has none."""
    return StoredEmbeddings(path, _served(about, models, path)[0]) if about.get("embeddings") else None


def _served_by(
    models: Sequence[Model], stages: Sequence[SampleStage], about: About, path: Path
) -> tuple[Entries, tuple[str, ...]]:
    if about["recipe"].get("stages", []) != written_stages(stages):
        raise LedgerError(f"{path} was measured with other stages than those of the recipe")
    return _served(about, models, path)


class ShardEmbeddings(AbstractContextManager["ShardEmbeddings"]):
    """Finds embeddings in the ledger of an earlier run, if there is one, and keeps those of this run, if requested.

    ``own``: those that the shard's ledger has already. They are kept unchanged.
    """

    def __init__(
        self, *, spool: Spool | None = None, stored: StoredEmbeddings | None = None, own: StoredEmbeddings | None = None
    ) -> None:
        self.spool, self._stored, self._own = spool, stored, own
        self.in_use = any(each is not None for each in (spool, stored, own))

    def __exit__(self, *_: object) -> None:
        """Close what is open."""
        for each in (self.spool, self._stored, self._own):
            if each is not None:
                each.close()

    def find(self, row: Row, request: Request) -> Output | None:
        """Return the output of a request if it is already known."""
        places = [each for each in (self._own, self._stored) if each is not None]
        if not places or not isinstance(request.model, (ClipImage, ClipText)):
            return None
        key = embedding_key(request)
        return next((found for each in places if (found := each.find(row, request.model, key)) is not None), None)

    def keep_own(self, row: Row) -> None:
        """Keep the embeddings that the ledger has of a sample. Raises SourceError, OSError if the disk fails."""
        if self.spool is not None and self._own is not None:
            for column, found in self._own.all_of(row):
                self.spool.add(column, row, found)

    def keep(self, row: Row, score: ModelScore, requests: Sequence[Request], outputs: Sequence[Output]) -> None:
        """Keep all embeddings of a sample that a score requested. Raises OSError if the disk fails."""
        if self.spool is None or not isinstance(score, ClipScore):
            return
        keys = list(map(embedding_key, requests))
        for embedded in score.embedded():
            found = zip(keys, requests, outputs, strict=True)
            own = [(key, output) for key, request, output in found if request.model == embedded.model]
            self.spool.add(EmbeddingColumn.of(embedded).name, row, own)
