"""Opens a shard on its server in place of an unreadable cache file.

The server must still have that version.
"""

from pathlib import Path

from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import SourceChangedError
from wdsflow.shards.source.remote import RemoteSource, open_stored

from .entry import CacheEntry, version_digest


def is_version(entry: CacheEntry, size: int | None, version: str) -> bool:
    """Return whether an entry has the version that a server names, with its size."""
    return (entry.size, entry.version) == (size, version_digest(version))


def open_version(shard: Shard, entry: CacheEntry) -> RemoteSource:
    """Open a shard on its server. Raises SourceError, also if it has changed."""
    stored = open_ranges(shard)
    if is_version(entry, stored.length, stored.version):
        return stored
    stored.close()
    raise SourceChangedError("its server has another version")


def open_instead(shard: Shard, file: str) -> RemoteSource:
    """Open a shard on its server in place of a cache file.

    ``file`` is the path of the cache file. Raises SourceError, as ``open_version`` does.
    """
    entry = CacheEntry.from_name(Path(file).name)
    assert entry is not None, file
    return open_version(shard, entry)


def open_ranges(shard: Shard) -> RemoteSource:
    """Open a shard on a server that sends ranges. Raises SourceError."""
    stored = open_stored(shard)
    if isinstance(stored, RemoteSource):
        return stored
    stored.close()
    raise SourceChangedError("its server does not send ranges any more")
