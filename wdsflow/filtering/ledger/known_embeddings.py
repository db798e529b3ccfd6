"""Embeddings of an earlier run that scores of the same model read again."""

import json
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wdsflow.filtering.deciding.program import Program
from wdsflow.filtering.folder.layout import Layout
from wdsflow.filtering.folder.shard_record import ShardRecord
from wdsflow.filtering.ledger.ledger_row import LedgerError, Row, no_ledgers, read_about, same_shard
from wdsflow.filtering.recipe.recipe import canonical, differences, digest
from wdsflow.filtering.recipe.recipe_stages import written_stages
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import SourceError
from wdsflow.stages.scores.base import ScoreError
from wdsflow.stages.scores.model.clip import ClipScore, embedding_key
from wdsflow.stages.scores.model.model_score import Model, ModelScore, Output, Request
from wdsflow.stages.scores.model.models.clip import ClipImage, ClipModel, ClipText
from wdsflow.stages.scores.sample_view import View

from .ledger_row import GROUP, KEYS, names_of

if TYPE_CHECKING:
    import pyarrow as pa

    from .embeddings import Spool


_HELD = 2  # groups of rows: samples come in order, those that wait for a model a little later

Entries = dict[Model, list[dict[str, Any]]]  # columns of a ledger, by the model that computes the same


class Served:
    """The models whose embeddings a ledger has. ``missing``: lines on why it lacks those of other models."""

    def __init__(self, about: Mapping[str, Any], models: Sequence[Model], path: Path) -> None:
        self.entries: Entries = {}
        self.missing: list[str] = []
        entries = about.get("embeddings", [])
        if not entries:
            raise LedgerError(f"{path} has no embeddings: score with --embeddings first")
        for model in models:
            if not isinstance(model, (ClipImage, ClipText)):
                continue
            identity = json.loads(canonical(model.identity()))
            same = [entry for entry in entries if entry["model"] == identity]
            if same:
                self.entries[model] = same
            else:
                self.missing.append(f"{path} has none of the {_told(model)}: {_why(entries, identity)}")
        if not self.entries:
            raise LedgerError("\n".join(self.missing) or "--ledger is for scores of a CLIP, and the recipe has none")

    def recall(self) -> None:
        """Give models their facts for decoders: they need not be loaded if the ledger has all embeddings."""
        for model, entries in self.entries.items():
            model.recall(entries[0]["facts"])


def _told(model: ClipModel) -> str:
    return f"{model.kind} {model.model!r}, {model.pretrained!r}, {model.precision}"


def _why(entries: Sequence[Mapping[str, Any]], identity: Mapping[str, Any]) -> str:
    """Return the difference from the most similar column."""
    own = [entry["model"] for entry in entries if entry["model"]["kind"] == identity["kind"]]
    found = sorted((list(differences(model, identity)) for model in own), key=len)
    return "; ".join(found[0]) if found else f"it has those of the {entries[0]['model']['kind']}"


class StoredEmbeddings:
    """The embeddings of one shard, read one group of rows at a time."""

    def __init__(self, path: Path, entries: Entries) -> None:
        import pyarrow.parquet as pq

        self._path, self._file = path, pq.ParquetFile(path)
        self._entries = entries
        self._names = [each for entry in _all(entries) for each in (entry["column"], entry["more"])]
        self._groups: OrderedDict[int, _Group] = OrderedDict()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def find(self, row: Row, model: Model, key: str) -> Any:
        """Return an embedding, float32, or None if the ledger does not have it. Raises SourceError."""
        entries = self._entries.get(model)
        if entries is None or row.number >= self._file.metadata.num_rows:
            return None
        return self._group(row.number // GROUP).find(row.number % GROUP, entries, key)

    def all_of(self, row: Row) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
        """Yield each column with the (key, embedding) that it has of a sample. Raises SourceError."""
        if row.number < self._file.metadata.num_rows:
            yield from self._group(row.number // GROUP).all_of(row.number % GROUP, _all(self._entries))

    def _group(self, number: int) -> "_Group":
        group = self._groups.get(number)
        if group is None:
            group = self._groups[number] = _Group(self._read(number))
            if len(self._groups) > _HELD:
                self._groups.popitem(last=False)
        return group

    def _read(self, number: int) -> "pa.Table":
        import pyarrow as pa

        try:
            return self._file.read_row_group(number, columns=[KEYS, *self._names])
        except (pa.ArrowException, OSError) as error:  # a fault of the shard, not of a sample
            raise SourceError("io", f"{self._path} cannot be read: {error}") from None


class _Group:
    def __init__(self, table: "pa.Table") -> None:
        self._keys = table.column(KEYS).to_pylist()
        self._columns = {name: table.column(name).combine_chunks() for name in table.column_names if name != KEYS}

    def find(self, row: int, entries: Sequence[Mapping[str, Any]], key: str) -> Any:
        """Return the embedding of a row in one of some columns."""
        known = self._known(row)
        for entry in entries:
            own = known.get(entry["column"], [])
            if key in own:
                return self._vector(row, entry, own.index(key))
        return None

    def all_of(self, row: int, entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
        """Yield each column with the (key, embedding) that it has of a row."""
        known = self._known(row)
        for entry in entries:
            own = known.get(entry["column"], [])
            yield entry["column"], [(key, self._vector(row, entry, place)) for place, key in enumerate(own)]

    def _known(self, row: int) -> dict[str, list[str]]:
        keys = self._keys[row]
        found: dict[str, list[str]] = json.loads(keys) if keys else {}
        return found

    def _vector(self, row: int, entry: Mapping[str, Any], place: int) -> Any:
        found = self._columns[entry["more" if place else "column"]][row].values
        return (found[place - 1].values if place else found).to_numpy(zero_copy_only=False).astype("float32")


def _all(entries: Entries) -> list[dict[str, Any]]:
    """Return each column once."""
    return list({entry["column"]: entry for each in entries.values() for entry in each}.values())


class CopiedEmbeddings:
    """The unchanged embeddings of a ledger, for the ledger of a later pass."""

    def __init__(self, path: Path) -> None:
        self._path, self._about = path, read_about(path)
        if not names_of(self._about):
            raise LedgerError(f"{path} has no embeddings: score with --embeddings first")

    def about(self) -> list[dict[str, Any]]:
        """Return the metadata of each column."""
        return list(self._about["embeddings"])

    def groups(self, _: Sequence[Row]) -> "Iterator[dict[str, pa.Array]]":
        """Yield the columns as they were written, one group at a time."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(self._path) as file:
            for number in range(file.num_row_groups):
                table = file.read_row_group(number, columns=names_of(self._about))
                yield {name: table.column(name).combine_chunks() for name in table.column_names}


class Reuse(NamedTuple):
    """The folder of an earlier run, the models whose embeddings it has, a digest of its ledgers, and missing models."""

    layout: Layout
    served: frozenset[Model]
    digest: str
    missing: tuple[str, ...]


def reuse_of(ledger: str | os.PathLike[str], names: Sequence[str], program: Program) -> Reuse:
    """Return which embeddings a run may take from the ledgers of these shards. Each ledger is checked again in its turn.

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
    served = _served_by(program, read_about(first), first)
    return Reuse(layout, frozenset(served.entries), digest(marks), tuple(served.missing))


def stored_embeddings(program: Program, record: ShardRecord, reuse: Reuse) -> StoredEmbeddings:
    """Return the embeddings of a shard. Raises LedgerError: of another shard, other stages, or less than the first had."""
    path = reuse.layout.ledger(record.name)
    about = read_about(path)
    same_shard(about, record, path)
    served = _served_by(program, about, path)
    if served.entries.keys() != reuse.served:
        raise LedgerError("\n".join(served.missing) or f"{path} has more embeddings than the first ledger")
    return StoredEmbeddings(path, served.entries)


def own_embeddings(program: Program, about: dict[str, Any], path: Path) -> StoredEmbeddings | None:
    """Return the embeddings of a ledger that gets more scores; None if it has none."""
    if not about.get("embeddings"):
        return None
    served = Served(about, program.models, path)
    served.recall()
    return StoredEmbeddings(path, served.entries)


def _served_by(program: Program, about: dict[str, Any], path: Path) -> Served:
    if about["recipe"].get("stages", []) != written_stages(program.recipe.stages):
        raise LedgerError(f"{path} was scored with other stages than those of the recipe")
    served = Served(about, program.models, path)
    served.recall()
    return served


class ShardEmbeddings(AbstractContextManager["ShardEmbeddings"]):
    """Finds embeddings in the ledger of an earlier run, if there is one, and keeps those of this run, if requested.

    ``own``: those that the shard's ledger has already. They are kept as they are.
    """

    def __init__(
        self,
        *,
        spool: "Spool | None" = None,
        stored: "StoredEmbeddings | None" = None,
        own: "StoredEmbeddings | None" = None,
    ) -> None:
        self.spool, self._stored, self._own = spool, stored, own

    def __exit__(self, *_: object) -> None:
        """Close what is open."""
        for each in (self.spool, self._stored, self._own):
            if each is not None:
                each.close()

    def find(self, row: Row, view: View, request: Request) -> Output | None:
        """Return the output of a request if it is already known. Raises ScoreError."""
        places = [each for each in (self._own, self._stored) if each is not None]
        if not places or not isinstance(request.model, (ClipImage, ClipText)):
            return None
        key = embedding_key(view, request)
        found = (each.find(row, request.model, key) for each in places)
        return next((each for each in found if each is not None), None)

    def keep_own(self, row: Row) -> None:
        """Keep the embeddings that the ledger has of a sample. Raises SourceError, OSError if the disk fails."""
        if self.spool is not None and self._own is not None:
            for column, found in self._own.all_of(row):
                self.spool.add_to(column, row, found)

    def keep(
        self, row: Row, view: View, score: ModelScore, requests: Sequence[Request], outputs: Sequence[Output]
    ) -> None:
        """Keep all embeddings of a sample that a score requested. Raises OSError if the disk fails."""
        if self.spool is None or not isinstance(score, ClipScore):
            return
        try:
            keys = [embedding_key(view, request) for request in requests]
        except ScoreError:  # the file is gone: its embedding could not be found again
            return
        for embedded in score.embedded():
            found = zip(keys, requests, outputs, strict=True)
            own = [(key, output) for key, request, output in found if request.model == embedded.model]
            self.spool.add(row, embedded, own)


NONE = ShardEmbeddings()
