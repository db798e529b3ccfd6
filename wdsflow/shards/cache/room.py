"""Makes room in the folder of a cache: removes what nobody needs, and then what is needed last."""

import os

from .entry import CacheEntry
from .folder import CacheFile, CacheFolder
from .locks import is_locked, try_lock, unlock
from .plan import next_uses_of_runs
from .policy import NEVER, CachedShard, victims, victims_beyond_limit


class CacheRoom:
    """What is in a folder within its limit. Make and use it while the folder is locked.

    Parts that nobody writes or needs are removed, and shards beyond the limit, which was larger in
    another run.

    Args:
        folder: of the cache.
        limit: bytes of all shards in it.

    Raises OSError.
    """

    def __init__(self, folder: CacheFolder, limit: int) -> None:
        self._folder, self._limit = folder, limit
        self._needed = next_uses_of_runs(folder)
        self._stored: list[CacheFile] = []
        for stored in folder.all_files():
            is_useless = stored.entry.is_part and stored.entry.number not in self._needed
            if not is_useless or not remove_unless_written(folder, stored):
                self._stored.append(stored)
        excess = self.size - limit
        if excess > 0:
            self._remove(victims_beyond_limit(self._removable(), excess))

    @property
    def size(self) -> int:
        """Bytes of all shards, parts as a whole."""
        return sum(stored.entry.size for stored in self._stored)

    @property
    def has_all_needed(self) -> bool:
        """Whether all shards needed by the runs of this machine are cached or being written.

        Only shards within the limit are being written.

        Then none has to be removed, as long as none changes on its server.
        """
        here = {
            stored.entry.number
            for stored in self._stored
            if not stored.entry.is_part or is_locked(stored.path)
        }
        return here.issuperset(self._needed)

    def make_room_for(self, entry: CacheEntry, unplanned_next_use: float) -> bool:
        """Remove shards needed later than a new one; return whether the new one then fits.

        ``unplanned_next_use``: the next use of the new shard if no run has planned it.
        """
        next_use = self._needed.get(entry.number, unplanned_next_use)
        new = CachedShard(entry.name, entry.size, next_use)
        missing = self.size + entry.size - self._limit
        chosen = victims(self._removable(), new, missing)
        if chosen is None:
            return False
        self._remove(chosen)
        # A process may have begun to write one of them.
        return self.size + entry.size <= self._limit

    def _removable(self) -> list[CachedShard]:
        """Return what no process writes."""
        removable: list[CachedShard] = []
        for stored in self._stored:
            entry = stored.entry
            if entry.is_part and is_locked(stored.path):
                continue
            next_use = self._needed.get(entry.number, NEVER)
            removable.append(CachedShard(entry.name, entry.size, next_use, stored.last_use))
        return removable

    def _remove(self, shards: list[CachedShard]) -> None:
        names = {shard.name for shard in shards}
        self._stored = [
            stored
            for stored in self._stored
            if stored.entry.name not in names or not remove_unless_written(self._folder, stored)
        ]


def remove_unless_written(folder: CacheFolder, stored: CacheFile) -> bool:
    """Remove a file unless a process writes it; return whether it did. Raises OSError."""
    if not stored.entry.is_part:
        folder.remove(stored.entry)
        return True
    try:
        file = os.open(stored.path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        if not try_lock(file):
            return False
        folder.remove(stored.entry)
        return True
    finally:
        unlock(file)
        os.close(file)
