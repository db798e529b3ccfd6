"""The views that are served: computed when they are first needed, and kept as long as their shards do not change."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wdsflow.filtering.folder.outcome_counts import uncounted
from wdsflow.filtering.folder.shard_record import ShardRecord
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.shard_identity import input_identity, stored
from wdsflow.shards.source.base import Source, SourceChangedError, SourceError, local_path
from wdsflow.shards.source.opening import open_source
from wdsflow.text.shell import quote_path

from .tar_view import Piece, TarView, whole_tar

if TYPE_CHECKING:
    from .chosen_samples import ChosenSamples

MEMORY = 256 << 20  # bytes of all views that are kept, about
_FORMAT = 1  # of views: another would make other bytes of the same shard

Mark = tuple[Any, ...]


@dataclass(frozen=True)
class ServedTar:
    """A tar as it is served, and the shard that it is made from.

    ``mark`` tells whether the shard is still the same; ``etag`` stands for the bytes of the view.
    """

    view: TarView
    mark: Mark
    etag: str
    record: ShardRecord | None = None  # what becomes of the samples, if not all are served

    def parts(self, source: Source, start: int, stop: int) -> Iterator[tuple[Source, Piece]]:
        """Yield the parts of the bytes from ``start`` to ``stop``, each with the source of its range. Read one before the next."""
        return ((source, part) for part in self.view.parts(start, stop))

    def changed(self, source: Source) -> bool:
        """Return whether the shard is another one by now. Raises SourceError, OSError."""
        return mark_of(source) != self.mark


T = TypeVar("T", bound=ServedTar)


class KeptTars(Generic[T]):
    """The tars that were served last, as many as memory allows. Threads may share it."""

    def __init__(self) -> None:
        self._tars: OrderedDict[int, T] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, number: int, built: Callable[[int], T]) -> T:
        """Return a tar, from ``built`` if it is not kept."""
        with self._lock:
            if (known := self._tars.get(number)) is not None:
                self._tars.move_to_end(number)
                return known
        served = built(number)
        with self._lock:
            self._remove(number)
            self._tars[number] = served
            self._weight += served.view.weight
            while self._weight > MEMORY and len(self._tars) > 1:
                self._remove(next(iter(self._tars)))
        return served

    def forget(self, number: int) -> None:
        """Keep a tar no longer."""
        with self._lock:
            self._remove(number)

    def _remove(self, number: int) -> None:
        if (old := self._tars.pop(number, None)) is not None:
            self._weight -= old.view.weight


class ShardViews:
    """The views of shards, by their numbers. Threads may share it.

    ``choice``: what is served of them; by default each shard is served as it is.
    """

    def __init__(self, urls: Sequence[str], choice: "ChosenSamples | None" = None) -> None:
        self.urls: list[str] = list(urls)
        self._choice, self._kept = choice, KeptTars[ServedTar]()

    @property
    def filters(self) -> bool:
        """Whether samples may be left out."""
        return self._choice is not None

    def open(self, number: int) -> tuple[ServedTar, Source]:
        """Return the view of a shard and its bytes, which the caller closes.

        Raises LedgerError if the ledger does not fit; SourceError, OSError if the shard cannot be read, or changes.
        """
        for _ in range(2):  # one that has changed gets another view
            served = self.get(number)
            source = _opened(self.urls[number])
            try:
                if not served.changed(source):
                    return served, source
            except BaseException:
                source.close()
                raise
            source.close()
            self._kept.forget(number)
        raise SourceChangedError

    def get(self, number: int) -> ServedTar:
        """Return the view of a shard as it was when it was last looked at. Raises as ``open``."""
        return self._kept.get(number, self._built)

    def count(self, number: int) -> ShardRecord:
        """Return what becomes of the samples of a shard. Raises as ``open``."""
        url = self.urls[number]
        if self._choice is not None:
            _opened(url).close()  # what cannot be served has no samples
            found = self.get(number).record if self._choice.quick else None
            return found or self._choice.record(number)
        record = ShardRecord(number, url, url, "", {})
        with _opened(url) as source:
            samples = Samples(source, contents=False)
            keys = [sample.key for sample in samples]
        record.samples = record.kept = len(keys)
        record.uncounted = uncounted(keys)
        record.members, record.left_out, record.damage = samples.members, dict(samples.left_out), samples.damage
        return record

    def _built(self, number: int) -> ServedTar:
        url = self.urls[number]
        with _opened(url) as source:
            mark, length = mark_of(source), source.length
            assert length is not None
            if self._choice is None:
                record, identity, view = None, input_identity(url), TarView([(0, length)])
            else:
                pieces, record = self._choice.pieces(number, source)
                identity, view = record.input, TarView(whole_tar(pieces, length))
        with _opened(url) as again:
            if mark_of(again) != mark:
                raise SourceChangedError
        return ServedTar(view, mark, etag_of(view, identity), record)


def _opened(url: str) -> Source:
    """Open a shard of which any part can be read. Raises SourceError."""
    source = open_source(url)
    if source.compression is None and source.random and source.length is not None:
        return source
    source.close()
    if source.compression is None:
        raise SourceError("refused", "only the whole of it can be read: serve needs parts")
    unpack = f"wdsflow repair {quote_path(url)} -o unpacked"
    raise SourceError("refused", "is compressed, and only the whole of it can be read; to unpack it", unpack)


def mark_of(source: Source) -> Mark:
    """Return what tells whether a shard has changed: file, size and time of a local one, otherwise what its server tells.

    Raises SourceError, OSError.
    """
    if source.fd >= 0:
        return mark_of_file(os.fstat(source.fd))
    return tuple(stored(source.url))


def mark_of_file(found: os.stat_result) -> Mark:
    """Return what tells whether a file has changed."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def is_local(url: str) -> bool:
    """Return whether a shard is a file of this machine."""
    return not url.startswith("pipe:") and local_path(url) is not None


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


def etag_of(view: TarView, identity: dict[str, Any]) -> str:
    """Return what stands for the bytes of a view of something that ``identity`` tells from all else."""
    from xxhash import xxh3_128

    digest = xxh3_128(
        repr((_FORMAT, sorted((name, value) for name, value in identity.items() if name != "url"))).encode()
    )
    for mark in view.marks():
        digest.update(mark)
    return digest.hexdigest()
