"""The folder of a cache: its layout, its lock, and the shards in it.

::

    DIR/CACHEDIR.TAG             marks it: programs for backups leave it out
    DIR/wdsflow-cache.lock       held while it is decided what is kept
    DIR/wdsflow-shards/ab/...    shards and parts of shards; ``entry`` has their names
    DIR/wdsflow-runs/...         what each run needs next; ``plan`` writes them
    DIR/wdsflow-waits/...        when busy servers may be asked again; see ``server_waits``

Files with other names are never touched.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from .entry import CacheEntry, boot_digest
from .locks import lock, try_lock, unlock

# See https://bford.info/cachedir/
_TAG = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# Shards of servers that wdsflow keeps. It can be removed while no training runs.\n"
)
_SHARDS, _RUNS, _WAITS = "wdsflow-shards", "wdsflow-runs", "wdsflow-waits"
_LOCK = "wdsflow-cache.lock"
# The first digits of a url's digest name a folder.
_DIGITS = 2


class CacheFile(NamedTuple):
    """An entry, and what the file system knows of its file."""

    entry: CacheEntry
    path: Path
    bytes: int
    last_use: float


class CacheFolder:
    """A folder, which is made if there is none. Raises OSError if it cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = path / _RUNS
        self.waits = path / _WAITS
        self._shards = path / _SHARDS
        self._shards.mkdir(parents=True, exist_ok=True)
        self.runs.mkdir(exist_ok=True)
        tag = path / "CACHEDIR.TAG"
        if not tag.exists():
            tag.write_text(_TAG)
        os.close(self._open_lock())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let no other process decide what is kept during the block."""
        file = self._open_lock()
        try:
            lock(file)
            yield
        finally:
            unlock(file)
            os.close(file)

    def path_of(self, entry: CacheEntry) -> Path:
        """Return the path of an entry's file."""
        return self._shards / entry.url[:_DIGITS] / entry.name

    def files_of_url(self, url: str) -> list[CacheFile]:
        """Return all versions of the shards and parts of one url.

        ``url`` is its digest. Broken files are removed.
        """
        return [
            stored for stored in self._scan(self._shards / url[:_DIGITS]) if stored.entry.url == url
        ]

    def all_files(self) -> list[CacheFile]:
        """Return all shards and parts; broken ones are removed."""
        shards: list[CacheFile] = []
        for folder in sorted(os.listdir(self._shards)):
            if len(folder) == _DIGITS:
                shards += self._scan(self._shards / folder)
        return shards

    def new_part(self, entry: CacheEntry) -> int:
        """Create the file of a part, and return its descriptor, locked. Raises OSError.

        Raises FileExistsError if another process has it.
        """
        path = self.path_of(entry)
        path.parent.mkdir(exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            # Between the two calls, a reader may have seen a part that nobody writes, and continued
            # it.
            is_ours = try_lock(file) and is_at(path, file)
        except OSError:
            # A file system without locks.
            os.close(file)
            os.unlink(path)
            raise
        if not is_ours:
            unlock(file)
            os.close(file)
            raise FileExistsError(errno.EEXIST, "another process writes it", str(path))
        return file

    def complete_part(self, entry: CacheEntry) -> None:
        """Give a part, which is whole and on the disk, the name of a shard."""
        with self.locked():
            os.rename(self.path_of(entry), self.path_of(entry.of_whole_shard()))

    def remove(self, entry: CacheEntry) -> None:
        """Remove the file of an entry; a process that has it open can read on."""
        with suppress(FileNotFoundError):
            os.unlink(self.path_of(entry))

    def _scan(self, folder: Path) -> Iterator[CacheFile]:
        try:
            names = os.listdir(folder)
        except (FileNotFoundError, NotADirectoryError):
            return
        for name in names:
            entry = CacheEntry.from_name(name)
            if entry is None:
                continue
            path = folder / name
            try:
                status = os.stat(path)
            except FileNotFoundError:
                continue
            stored = CacheFile(entry, path, status.st_size, status.st_mtime)
            if _is_broken(stored):
                self.remove(entry)
            else:
                yield stored

    def _open_lock(self) -> int:
        return os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def is_at(path: Path, file: int) -> bool:
    """Return whether an open file has this path."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False


def _is_broken(stored: CacheFile) -> bool:
    if stored.entry.is_part:
        return stored.entry.boot != boot_digest() or stored.bytes > stored.entry.size
    return stored.bytes != stored.entry.size
