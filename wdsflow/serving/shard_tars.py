"""Tars that are served: shards as they are, and tars of chosen samples."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from wdsflow.filtering.deciding.ledger_subset import LedgerSubset
from wdsflow.filtering.deciding.outcomes import uncounted
from wdsflow.filtering.run_folder import ShardRecord
from wdsflow.filtering.shard.shard_outputs import kept_pieces
from wdsflow.pieces.pieces import END
from wdsflow.pieces.tar_view import TarView, ViewSource
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.shard_identity import input_identity, stored
from wdsflow.shards.source.base import Piece, Source, SourceChangedError, SourceError, local_file
from wdsflow.shards.source.opening import open_source
from wdsflow.text.shell import quote_path

_FORMAT = 1  # version of the served bytes: rises if the same shard is served as other bytes
MEMORY = 256 << 20  # bytes of all cached views, approximately


@dataclass(frozen=True)
class OpenTar:
    """A served tar, open for reading; a context manager that closes it.

    Attributes:
        source: its bytes.
        etag: identifies them.
        changed: returns whether a shard that they come from has changed since. Raises SourceError, OSError.
    """

    source: Source
    etag: str
    changed: Callable[[], bool]

    @property
    def size(self) -> int:
        """Its bytes."""
        assert self.source.length is not None
        return self.source.length

    def __enter__(self) -> "OpenTar":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.source.close()


class Tars(Protocol):
    """A layer of numbered tars: shards as they are, some of their samples, or samples in tars of other sizes.

    Each layer is made from the one below it. Threads may share it. Its methods raise ValueError, such as LedgerError, or
    OSError, such as SourceError, for tars that cannot be served.
    """

    @property
    def urls(self) -> Sequence[str]:
        """The input of each tar, for display."""

    @property
    def filters(self) -> bool:
        """Whether samples may be left out, so that some tars may have none."""

    def prepare(self, number: int) -> None:
        """Compute the contents of a tar, unless they are cached."""

    def open(self, number: int) -> OpenTar:
        """Return a tar in its current state."""

    def changed(self, number: int) -> bool:
        """Return whether a shard of a tar has changed since it was last opened; False if that needs a request to a server."""

    def count(self, number: int) -> ShardRecord:
        """Return the counts of its samples."""


def etag_of(*facts: object) -> str:
    """Return the ETag of a tar with these facts: bytes are hashed directly, all others by their ``repr()``."""
    from xxhash import xxh3_128

    digest = xxh3_128(repr(_FORMAT).encode())
    for fact in facts:
        digest.update(fact if isinstance(fact, bytes) else repr(fact).encode())
    return digest.hexdigest()


_Mark = tuple[object, ...]


class ShardTars:
    """Shards as they are: see ``Tars``."""

    filters = False

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls: list[str] = list(urls)
        self._known: dict[int, tuple[_Mark, str]] = {}  # mark and etag of each shard

    def prepare(self, number: int) -> None:
        """Read the identity of a shard."""
        self.open(number).source.close()

    def open(self, number: int) -> OpenTar:
        """Return a shard. Raises SourceError, OSError if it cannot be read, or changes meanwhile."""
        url = self.urls[number]
        source = _opened(url)
        try:
            mark = _mark_of(source)
            known = self._known.get(number)
            if known is None or known[0] != mark:
                identity = input_identity(url)
                identity.pop("url", None)
                with _opened(url) as again:
                    if _mark_of(again) != mark:
                        raise SourceChangedError
                known = self._known[number] = mark, etag_of(sorted(identity.items()))
        except BaseException:
            source.close()
            raise
        return OpenTar(source, known[1], lambda: _mark_of(source) != mark)

    def changed(self, number: int) -> bool:
        """Return whether a local shard has changed since it was last opened. Raises SourceError."""
        path = local_file(self.urls[number])
        if number not in self._known or path is None:
            return False
        try:
            return _mark_of_file(os.stat(path)) != self._known[number][0]
        except OSError as error:
            raise SourceError("io", f"{self.urls[number]}: {error.strerror}") from None

    def count(self, number: int) -> ShardRecord:
        """Return the counts of a shard's samples: all are served. Raises as ``open``."""
        url = self.urls[number]
        record = ShardRecord(number, url, url, "", {})
        with _opened(url) as source:
            samples = Samples(source, contents=False)
            keys = [sample.key for sample in samples]
        record.samples = record.kept = len(keys)
        record.uncounted = uncounted(keys)
        record.members, record.left_out, record.damage = samples.members, dict(samples.left_out), samples.damage
        return record


def _opened(url: str) -> Source:
    """Open a shard of which any range can be read. Raises SourceError."""
    source = open_source(url)
    if source.compression is None and source.random and source.length is not None:
        return source
    source.close()
    if source.compression is None:
        raise SourceError("refused", "only the whole of it can be read: serve needs parts")
    unpack = f"wdsflow repair {quote_path(url)} -o unpacked"
    raise SourceError("refused", "is compressed, and only the whole of it can be read; to unpack it", unpack)


def _mark_of(source: Source) -> _Mark:
    """Return file, size and time of a local shard, otherwise size and mark of its server. Raises SourceError, OSError."""
    if source.fd >= 0:
        return _mark_of_file(os.fstat(source.fd))
    return tuple(stored(source.url))


def _mark_of_file(found: os.stat_result) -> _Mark:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def all_compressed(urls: Sequence[str]) -> bool:
    """Return whether no shard can be served because all are compressed; False as soon as another is found."""
    for url in urls:
        try:
            with open_source(url) as source:
                if source.compression is None:
                    return False
        except OSError:
            return False
    return True


class ChosenSamples(Protocol):
    """Decides which samples of the tars of a layer are served.

    Raises ValueError, such as LedgerError, if a ledger or table does not fit; OSError if the tar cannot be read or has changed.
    """

    quick: bool  # making the pieces costs hardly more than the record alone

    def pieces(self, number: int, source: Source) -> tuple[Iterable[Piece], ShardRecord]:
        """Return the served pieces of a tar, without its end, and the counts of all its samples."""

    def record(self, number: int) -> ShardRecord:
        """Return the counts of all samples of a tar."""


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
        """Return the counts of all samples of a shard."""
        return self._choice.shard(self._urls[number]).decide(number)[1]


@dataclass(frozen=True)
class MadeTar:
    """The view of a tar, and the ETags of its bytes and of those below."""

    view: TarView
    etag: str
    below: str = ""  # ETag of the tar below it, if that is one
    record: ShardRecord | None = None
    needs: tuple[int, ...] = ()  # numbers of the tars below that have a range in it, if they may be several


class KeptTars:
    """A cache of the tars that were served last, limited by memory. Threads may share it. ``make`` makes a tar."""

    def __init__(self, make: Callable[[int], MadeTar]) -> None:
        self._make = make
        self._tars: OrderedDict[int, MadeTar] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, number: int) -> MadeTar:
        """Return a tar."""
        with self._lock:
            if (known := self._tars.get(number)) is not None:
                self._tars.move_to_end(number)
                return known
        found = self._make(number)
        with self._lock:
            self._remove(number)
            self._tars[number] = found
            self._weight += found.view.weight
            while self._weight > MEMORY and len(self._tars) > 1:
                self._remove(next(iter(self._tars)))
        return found

    def forget(self, number: int) -> None:
        """Remove a tar from the cache."""
        with self._lock:
            self._remove(number)

    def _remove(self, number: int) -> None:
        if (old := self._tars.pop(number, None)) is not None:
            self._weight -= old.view.weight


class ChosenTars:
    """The chosen samples of each tar of the layer below: see ``Tars``. A tar is made when it is first needed."""

    filters = True

    def __init__(self, below: Tars, choice: ChosenSamples) -> None:
        self._below, self._choice, self._kept = below, choice, KeptTars(self._made)
        self.urls = below.urls

    def prepare(self, number: int) -> None:
        """Compute the contents of a tar, unless they are cached."""
        self._kept.get(number)

    def open(self, number: int) -> OpenTar:
        """Return a tar; one whose shard has changed is made again. Raises SourceChangedError if it changes meanwhile."""
        for _ in range(2):
            made, below = self._kept.get(number), self._below.open(number)
            if below.etag == made.below:
                return OpenTar(ViewSource(made.view, below.source), made.etag, below.changed)
            below.source.close()
            self._kept.forget(number)
        raise SourceChangedError

    def changed(self, number: int) -> bool:
        """Return whether the shard has changed."""
        return self._below.changed(number)

    def count(self, number: int) -> ShardRecord:
        """Return the counts of a tar's samples."""
        self._below.open(number).source.close()  # raises if the tar cannot be served
        found = self._kept.get(number).record if self._choice.quick else None
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
