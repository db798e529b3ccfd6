"""Opens remote shards through a cache: from complete files, partial downloads, or the server."""

import logging
import os
import threading
import time
import weakref
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path

from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.source.remote import (
    RemoteSource,
    RemoteStream,
    as_source,
    open_stored,
    version_of,
)
from wdsflow.shards.source.server_waits import waits

from .cached_source import CachedSource
from .counted_source import CountedSource
from .download import Download
from .entry import CacheEntry, boot_digest, url_digest, url_number, version_digest
from .figures import CacheFigures
from .folder import CacheFile, CacheFolder, is_at
from .locks import try_lock, unlock
from .plan import RunPlan
from .policy import NEVER, UNPLANNED
from .room import CacheRoom, remove_unless_written
from .server_version import is_version, open_ranges, open_version

# Seconds without storing anything after the disk failed.
_PAUSE = 60.0
# Seconds between two looks whether all shards are there.
_REVIEW_INTERVAL = 10.0
# Times that a file is looked for again which another process removed meanwhile.
_TRIES = 5
_UNUSABLE = "wdsflow: the cache %s cannot be used, shards are read from their servers: %s"
_log = logging.getLogger(__name__)

_caches: "weakref.WeakSet[ShardCache]" = weakref.WeakSet()


class ShardCache:
    """A cache as one process sees it. Thread-safe.

    Args:
        folder: it may be shared with any number of processes of this machine.
        limit: bytes of all shards in it.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = CacheFolder(folder)
        waits.share(self.folder.waits)
        self.figures = CacheFigures(limit)
        self._plans: set[RunPlan] = set()
        self._downloads: set[Download] = set()
        self._lock = threading.Lock()
        self._reported: set[str] = set()
        self._paused_until = 0.0
        # What all runs here need next is there or has its room, within the limit: nothing has to be
        # removed. Where it has not, it is looked for again at this time.
        self._has_all_needed = False
        self._next_review = 0.0
        _caches.add(self)

    def leave_to_parent(self) -> None:
        """Leave plans and downloads to the parent, in a process that was forked."""
        # A thread of the parent may hold the other one.
        self._lock = threading.Lock()
        self._plans, self._downloads = set(), set()

    # The future

    def new_plan(self) -> RunPlan:
        """Return an empty plan, for a run to note what it needs next."""
        return RunPlan(self.folder)

    def end_plan(self, plan: RunPlan) -> None:
        """Remove a plan, and stop downloads that nobody waits for once no plan is left."""
        plan.close()
        self._plans.discard(plan)
        if not self._plans:
            self.stop()

    def begin_epoch(self, plan: RunPlan, uses: list[int], uses_in_epoch: int) -> None:
        """Replace a plan by that of an epoch and those after it, see ``RunPlan.begin_epoch``.

        Parts that nobody needs are removed, and shards beyond the limit.
        """
        self._plans.add(plan)
        try:
            plan.begin_epoch(uses, uses_in_epoch)
            self._review_folder()
        except OSError as error:
            self._has_all_needed = False
            self._report_disk_error(error)

    def _review_folder(self) -> None:
        """Check whether all required shards are cached, and clean up the folder.

        Files that do not belong there are removed. Raises OSError.
        """
        self._next_review = time.monotonic() + _REVIEW_INTERVAL
        with self.folder.locked():
            room = CacheRoom(self.folder, self.figures.limit)
            self.figures.size = room.size
            self._has_all_needed = room.has_all_needed

    def stop(self) -> None:
        """Stop the downloads of this process; their parts stay."""
        for download in list(self._downloads):
            download.stop()

    # Opening

    def open(self, shard: Shard, *, allow_pipe: bool = False) -> Source:
        """Open a shard, decompressed if necessary, and cache it if it is worth it.

        Raises ``SourceError``.
        """
        if shard.kind != "url" or shard.lacks_secret:
            return open_source(shard, allow_pipe=allow_pipe)
        return as_source(self.open_stored(shard))

    def open_stored(self, shard: Shard) -> Source | RemoteStream:
        """Open a url for its bytes as stored, and cache them if that is worth it.

        Raises ``SourceError``.
        """
        source: Source | None = None
        try:
            source = self._open_cached(shard)
        except SourceError:
            raise
        except OSError as error:
            self._report_disk_error(error)
        return self._open_from_server(shard) if source is None else source

    def open_without_storing(self, shard: Shard, *, allow_pipe: bool = False) -> Source:
        """Open a shard to read only a few bytes, from its cache file if there is one.

        Nothing is added to the cache. Raises ``SourceError``.
        """
        if shard.kind == "url" and not shard.lacks_secret:
            with suppress(OSError):
                for stored in self._current_files(shard):
                    if not stored.entry.is_part:
                        return as_source(self._open_cache_file(shard, stored))
        return open_source(shard, allow_pipe=allow_pipe)

    def _open_cached(self, shard: Shard) -> Source | None:
        """Return a shard that is cached or being written.

        None if there is no such file. Raises OSError.
        """
        for _ in range(_TRIES):
            current = self._current_files(shard)
            if not current:
                return None
            # It may get its name, or be removed, before it is opened.
            with suppress(FileNotFoundError):
                stored = min(current, key=lambda stored: stored.entry.is_part)
                source = self._open_cache_file(shard, stored)
                # Once it is open: before, another reader might have removed it because of that.
                self._note_use(shard)
                with self._lock:
                    self.figures.hits += 1
                    self.figures.saved += stored.bytes
                return source
        return None

    def _note_use(self, shard: Shard) -> None:
        """Note in the plans of this process that a shard is opened."""
        try:
            for plan in list(self._plans):
                plan.note_use(url_number(shard))
        except OSError as error:
            self._report_disk_error(error)

    def _current_files(self, shard: Shard) -> list[CacheFile]:
        """Return the cache files of the version that the server has.

        Files of other versions are removed. Raises OSError.
        """
        files = self.folder.files_of_url(url_digest(shard))
        if not files:
            return []
        size, version = version_of(shard)
        current = [stored for stored in files if is_version(stored.entry, size, version)]
        if len(current) < len(files):
            with self.folder.locked():
                for stored in files:
                    if stored not in current:
                        remove_unless_written(self.folder, stored)
        return current

    def _open_cache_file(self, shard: Shard, stored: CacheFile) -> Source:
        """Return a source that reads a file of the cache. Raises FileNotFoundError."""
        file = os.open(stored.path, os.O_RDONLY | os.O_CLOEXEC)
        with suppress(OSError):
            # The last use, for shards that no run has planned.
            os.utime(file)
        # When an epoch begins, the last shards of the one before may still be written to the disk.
        if self._plans and not self._has_all_needed and time.monotonic() >= self._next_review:
            try:
                self._review_folder()
            except OSError as error:
                self._report_disk_error(error)
        try:
            download = self._resume(shard, stored.entry, file) if stored.entry.is_part else None
        except BaseException:
            os.close(file)
            raise
        return self._cached_source(shard, stored.entry, file, download)

    def _open_from_server(self, shard: Shard) -> Source | RemoteStream:
        """Return a shard that is not cached, and store it if it is worth it.

        Raises ``SourceError``.
        """
        stored = open_stored(shard)
        if not isinstance(stored, RemoteSource) or not stored.version or not stored.length:
            text = "wdsflow: %s is not cached: its server sends no ranges, or neither an ETag nor a time"
            self._warn_once("unknown", text, shard)
            with self._lock:
                self.figures.passed += 1
            return stored
        source: Source | None = None
        self._note_use(shard)
        try:
            source = self._start_storing(shard, stored)
        except FileExistsError:
            # Another reader was faster.
            stored.close()
            source = self._open_cached(shard) or CountedSource(
                open_ranges(shard), self._count_downloaded
            )
        except OSError as error:
            self._report_disk_error(error)
        if source is None:
            with self._lock:
                self.figures.passed += 1
            source = CountedSource(stored, self._count_downloaded)
        return source

    def _start_storing(self, shard: Shard, stored: RemoteSource) -> Source | None:
        """Begin to store a shard; None if it is not worth it. Raises OSError of the disk."""
        entry = _entry_of(shard, stored)
        file = self._reserve_part(entry)
        if file is None:
            return None
        reading = -1
        try:
            # Another description of the file, without its lock.
            reading = os.open(self.folder.path_of(entry), os.O_RDONLY | os.O_CLOEXEC)
            download = self._start_download(entry, stored, file)
        except OSError:
            self.folder.remove(entry)
            unlock(file)
            os.close(file)
            if reading >= 0:
                os.close(reading)
            raise
        with self._lock:
            self.figures.stored += 1
        return self._cached_source(shard, entry, reading, download)

    def _cached_source(
        self, shard: Shard, entry: CacheEntry, file: int, download: Download | None
    ) -> CachedSource:
        stays = self._has_all_needed and not entry.is_part

        def report(error: OSError) -> None:
            self._report_disk_error(error)
            if not entry.is_part:
                self.folder.remove(entry)

        return CachedSource(
            shard,
            entry.size,
            file,
            download,
            path=str(self.folder.path_of(entry)) if stays else "",
            later_path=str(self.folder.path_of(entry.of_whole_shard())) if entry.is_part else "",
            resume=partial(self._resume, shard, entry),
            direct=lambda: CountedSource(open_version(shard, entry), self._count_downloaded),
            report=report,
        )

    def _resume(self, shard: Shard, entry: CacheEntry, reading: int) -> Download | None:
        """Resume a partial download that no process is writing.

        None if a process is writing it or it is complete. Raises OSError, SourceError.

        ``reading``: the descriptor of who waits for it. It has no lock, which a process that is
            forked
        would keep.
        """
        path = self.folder.path_of(entry)
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            # It may have got its name, or have been removed, before it was locked.
            is_ours = try_lock(file) and is_at(path, file) and is_at(path, reading)
            if is_ours:
                stored = open_version(shard, entry)
                try:
                    return self._start_download(entry, stored, file)
                except OSError:
                    stored.close()
                    raise
        except BaseException:
            unlock(file)
            os.close(file)
            raise
        unlock(file)
        os.close(file)
        return None

    def _start_download(self, entry: CacheEntry, stored: Source, file: int) -> Download:
        download = Download(self.folder, entry, file, stored, self._count_downloaded)
        with self._lock:
            self._downloads = {other for other in self._downloads if other.thread.is_alive()}
            self._downloads.add(download)
        return download

    def _reserve_part(self, entry: CacheEntry) -> int | None:
        """Return the locked file of a new part, after making room for it.

        None if the shard is too large or not worth it, or if storing is paused. Raises OSError.

        Raises FileExistsError if the shard, or its part, is there.
        """
        if entry.size > self.figures.limit:
            self._warn_once(
                "limit",
                "wdsflow: %s bytes of cache_size are less than a shard: it is read from its server each time",
                f"{self.figures.limit:,}",
            )
            return None
        if time.monotonic() < self._paused_until:
            return None
        with self.folder.locked():
            for existing in self.folder.files_of_url(entry.url):
                if existing.entry.of_whole_shard() == entry.of_whole_shard():
                    raise FileExistsError(existing.path)
            room = CacheRoom(self.folder, self.figures.limit)
            has_room = room.make_room_for(entry, NEVER if self._plans else UNPLANNED)
            self.figures.size = room.size
            if not has_room:
                return None
            file = self.folder.new_part(entry)
            self.figures.size += entry.size
            return file

    # Figures and messages

    def _count_downloaded(self, size: int) -> None:
        with self._lock:
            self.figures.downloaded += size

    def _report_disk_error(self, error: OSError) -> None:
        """Report an error of the disk once, and store nothing for a while."""
        self._paused_until = time.monotonic() + _PAUSE
        self._warn_once(
            "disk",
            _UNUSABLE,
            self.folder.path,
            error,
        )

    def _warn_once(self, kind: str, text: str, *values: object) -> None:
        """Log a warning, once for each kind."""
        with self._lock:
            if kind in self._reported:
                return
            self._reported.add(kind)
        _log.warning(text, *values)


@lru_cache(maxsize=16)
def shared_cache(folder: Path, limit: int) -> ShardCache | None:
    """Return the cache of a folder, shared by all feeds of this process.

    None if it cannot be used, which is reported.
    """
    try:
        return ShardCache(folder.absolute(), limit)
    except OSError as error:
        _log.warning(_UNUSABLE, folder, error)
        return None


def _entry_of(shard: Shard, stored: RemoteSource) -> CacheEntry:
    return CacheEntry(
        url_digest(shard), version_digest(stored.version), stored.length, boot=boot_digest()
    )


def _forget_in_child() -> None:
    for cache in list(_caches):
        cache.leave_to_parent()


os.register_at_fork(after_in_child=_forget_in_child)
