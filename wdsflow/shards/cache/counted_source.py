"""A shard that is read around the cache, so that its bytes are in the figures, too."""

from collections.abc import Callable

from wdsflow.shards.source.base import Source
from wdsflow.shards.source.remote import RemoteSource


class CountedSource(Source):
    """A shard on a server, whose bytes are counted when it is closed."""

    def __init__(self, stored: RemoteSource, count: Callable[[int], None]) -> None:
        self.url, self.size, self.length = stored.url, stored.size, stored.length
        self._stored, self._count = stored, count

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes of the shard; fewer at its end. Raises ``SourceError``."""
        return self._stored.read_at(offset, size)

    def close(self) -> None:
        """Close the connection."""
        self._count(self._stored.bytes_read)
        self._stored.bytes_read = 0
        self._stored.close()
