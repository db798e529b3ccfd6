"""Shards as they are: the lowest layer of what is served."""

import os
from collections.abc import Sequence

from wdsflow.filtering.deciding.program import uncounted
from wdsflow.filtering.run_folder import ShardRecord
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.shard_identity import input_identity, stored
from wdsflow.shards.source.base import Source, SourceChangedError, SourceError, local_path
from wdsflow.shards.source.opening import open_source
from wdsflow.text.shell import quote_path

from .served_tar import OpenTar, etag_of

_Mark = tuple[object, ...]


class ShardTars:
    """Shards as they are: see ``Tars``."""

    filters = False

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls: list[str] = list(urls)
        self._known: dict[int, tuple[_Mark, str]] = {}  # what tells whether a shard has changed, and its etag

    def prepare(self, number: int) -> None:
        """Look at a shard."""
        self.open(number).source.close()

    def open(self, number: int) -> OpenTar:
        """Return a shard. Raises SourceError, OSError if it cannot be read, or changes."""
        url = self.urls[number]
        source = _opened(url)
        try:
            mark = _mark_of(source)
            known = self._known.get(number)
            if known is None or known[0] != mark:
                identity = input_identity(url)
                with _opened(url) as again:
                    if _mark_of(again) != mark:
                        raise SourceChangedError
                etag = etag_of(sorted((name, value) for name, value in identity.items() if name != "url"))
                known = self._known[number] = mark, etag
        except BaseException:
            source.close()
            raise
        return OpenTar(source, known[1], lambda: _mark_of(source) != mark)

    def changed(self, number: int) -> bool:
        """Return whether a file is not what it was when it was last opened. Raises SourceError."""
        url = self.urls[number]
        if number not in self._known or not is_local(url):
            return False
        try:
            return _mark_of_file(os.stat(str(local_path(url)))) != self._known[number][0]
        except OSError as error:
            raise SourceError("io", f"{url}: {error.strerror}") from None

    def count(self, number: int) -> ShardRecord:
        """Return what becomes of the samples of a shard: all are served. Raises as ``open``."""
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
    """Open a shard of which any part can be read. Raises SourceError."""
    source = open_source(url)
    if source.compression is None and source.random and source.length is not None:
        return source
    source.close()
    if source.compression is None:
        raise SourceError("refused", "only the whole of it can be read: serve needs parts")
    unpack = f"wdsflow repair {quote_path(url)} -o unpacked"
    raise SourceError("refused", "is compressed, and only the whole of it can be read; to unpack it", unpack)


def _mark_of(source: Source) -> _Mark:
    """Return what tells whether a shard has changed: file, size and time of a local one, otherwise what its server tells.

    Raises SourceError, OSError.
    """
    if source.fd >= 0:
        return _mark_of_file(os.fstat(source.fd))
    return tuple(stored(source.url))


def _mark_of_file(found: os.stat_result) -> _Mark:
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
