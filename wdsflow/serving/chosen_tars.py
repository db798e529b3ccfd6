"""Tars of some samples of others, or of changed ones: what a ledger keeps, what a table adds."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, Protocol, TypeVar

from wdsflow.filtering.deciding.ledger_subset import LedgerSubset
from wdsflow.filtering.run_folder import ShardRecord
from wdsflow.filtering.shard.shard_outputs import kept_pieces
from wdsflow.pieces.pieces import END
from wdsflow.pieces.tar_view import TarView
from wdsflow.pieces.view_source import ViewSource
from wdsflow.shards.source.base import Piece, Source, SourceChangedError

from .served_tar import OpenTar, Tars, etag_of

MEMORY = 256 << 20  # bytes of all views that are kept, about


class ChosenSamples(Protocol):
    """Decides what is served of the tars of a layer, by their numbers.

    ``quick``: a record costs about as much as the pieces. Both functions raise ValueError, such as LedgerError, if a
    ledger or table does not fit; OSError, such as SourceError, if the tar cannot be read or has changed.
    """

    quick: bool

    def pieces(self, number: int, source: Source) -> tuple[Iterable[Piece], ShardRecord]:
        """Return the pieces of what is served of a tar, without its end, and what becomes of all samples."""

    def record(self, number: int) -> ShardRecord:
        """Return what becomes of all samples of a tar."""


class LedgerSamples:
    """The samples that a ledger keeps, as ``cut`` writes them: see ``ChosenSamples``."""

    def __init__(self, urls: Sequence[str], choice: LedgerSubset) -> None:
        self._urls, self._choice = list(urls), choice
        self.quick = not choice.recipe.stages  # these run again on all kept samples

    def pieces(self, number: int, source: Source) -> tuple[Iterable[Piece], ShardRecord]:
        """Return the pieces of the tar that ``cut`` writes."""
        rows, record = self._choice.shard(self._urls[number]).decide(number)
        return kept_pieces(source, record.url, self._choice.recipe.stages, rows, record.headers), record

    def record(self, number: int) -> ShardRecord:
        """Return what becomes of all samples of a shard."""
        return self._choice.shard(self._urls[number]).decide(number)[1]


@dataclass(frozen=True)
class MadeTar:
    """What a tar consists of, what stands for its bytes, and for those of the tar below it."""

    view: TarView
    etag: str
    below: str = ""
    record: ShardRecord | None = None


T = TypeVar("T", bound=MadeTar)


class KeptTars(Generic[T]):
    """The tars that were served last, as many as memory allows. Threads may share it."""

    def __init__(self) -> None:
        self._tars: OrderedDict[int, T] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, number: int, made: Callable[[int], T]) -> T:
        """Return a tar, from ``made`` if it is not kept."""
        with self._lock:
            if (known := self._tars.get(number)) is not None:
                self._tars.move_to_end(number)
                return known
        found = made(number)
        with self._lock:
            self._remove(number)
            self._tars[number] = found
            self._weight += found.view.weight
            while self._weight > MEMORY and len(self._tars) > 1:
                self._remove(next(iter(self._tars)))
        return found

    def forget(self, number: int) -> None:
        """Keep a tar no longer."""
        with self._lock:
            self._remove(number)

    def _remove(self, number: int) -> None:
        if (old := self._tars.pop(number, None)) is not None:
            self._weight -= old.view.weight


class ChosenTars:
    """What is chosen of each tar of the layer below: see ``Tars``. Made when it is first needed."""

    filters = True

    def __init__(self, below: Tars, choice: ChosenSamples) -> None:
        self._below, self._choice, self._kept = below, choice, KeptTars[MadeTar]()
        self.urls = below.urls

    def prepare(self, number: int) -> None:
        """Decide what a tar consists of."""
        self._kept.get(number, self._made)

    def open(self, number: int) -> OpenTar:
        """Return a tar; one whose shard has changed is made again. Raises SourceChangedError if it changes meanwhile."""
        for _ in range(2):
            made, below = self._kept.get(number, self._made), self._below.open(number)
            if below.etag == made.below:
                return OpenTar(ViewSource(made.view, below.source), made.etag, below.changed)
            below.source.close()
            self._kept.forget(number)
        raise SourceChangedError

    def changed(self, number: int) -> bool:
        """Return whether the shard has changed."""
        return self._below.changed(number)

    def count(self, number: int) -> ShardRecord:
        """Return what becomes of the samples of a tar."""
        self._below.open(number).source.close()  # what cannot be served has no samples
        found = self._kept.get(number, self._made).record if self._choice.quick else None
        return found or self._choice.record(number)

    def _made(self, number: int) -> MadeTar:
        with self._below.open(number) as below:
            pieces, record = self._choice.pieces(number, below.source)
            view = TarView(chain(pieces, [END]))
            if view.reach > below.size:
                below.source.padding(below.size, view.reach)
            if below.changed():
                raise SourceChangedError
            return MadeTar(view, etag_of(below.etag, *view.marks()), below.etag, record)
