"""Open shards that several threads read from, and reading ahead of what has to be read from front to back."""

import contextlib
import os
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

from wdsflow.shards.source.base import local_path, open_file
from wdsflow.shards.source.pipe import end_commands

_MOST_OPEN = 64  # files kept open; a shuffle buffer may spread over thousands


class _File:
    def __init__(self, fd: int) -> None:
        self.fd, self.users = fd, 0


class Files:
    """Keeps local shards open while they are in use, and some beyond."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, _File] = OrderedDict()
        self._lock = threading.Lock()
        self._most = _MOST_OPEN

    @contextmanager
    def use(self, url: str) -> Iterator[int]:
        """Give a file descriptor for ``os.pread``. Raises ``OSError``."""
        with self._lock:
            file = self._files.get(url)
            if file is None:
                path = local_path(url)
                if path is None:
                    raise OSError(f"{url} is no local file")
                file = self._files[url] = _File(open_file(path))
            self._files.move_to_end(url)
            file.users += 1
        try:
            yield file.fd
        finally:
            with self._lock:
                file.users -= 1
                self._trim()

    def close(self) -> None:
        """Close what nobody uses, and from now on each file as soon as nobody uses it."""
        with self._lock:
            self._most = 0
            self._trim()

    def _trim(self) -> None:
        for url in list(self._files)[: max(0, len(self._files) - self._most)]:
            if not self._files[url].users:
                os.close(self._files.pop(url).fd)


def read_fully(fd: int, size: int, offset: int) -> bytes:
    """Return ``size`` bytes at an offset; fewer where the file ends. Raises ``OSError``."""
    data = os.pread(fd, size, offset)
    while 0 < len(data) < size and (more := os.pread(fd, size - len(data), offset + len(data))):
        data += more
    return data


T = TypeVar("T")

_PACKED = (".gz", ".tgz", ".bz2", ".xz", ".zst", ".zstd", ".lzma")
_MOST_WAITING = 4096  # items that wait
_POLL = 0.2


def is_stream(url: str) -> bool:
    """Return whether a shard is most likely read from front to back: a pipe, a remote one, a packed one.

    >>> is_stream("a.tar"), is_stream("a.tar.gz"), is_stream("pipe:cat a.tar"), is_stream("s3://bucket/a.tar")
    (False, True, True, True)
    """
    return url.startswith("pipe:") or local_path(url) is None or url.lower().endswith(_PACKED)


class _End(NamedTuple):
    error: BaseException | None


class ReadAhead(Generic[T]):
    """Iterates in a thread, up to ``most_bytes`` by ``weigh`` ahead of who takes the items. Order is kept.

    Who waits for an item calls ``idle`` now and then, which may raise. The thread closes ``items``.
    """

    def __init__(
        self, items: Generator[T, None, None], weigh: Callable[[T], int], most_bytes: int, idle: Callable[[], None]
    ) -> None:
        self._items, self._weigh, self._most, self._idle = items, weigh, most_bytes, idle
        self._ready: queue.Queue[T | _End] = queue.Queue(_MOST_WAITING)
        self._held = 0
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="wdsflow-ahead", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        while True:
            item = self._take()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            with self._changed:
                self._held -= self._weigh(item)
                self._changed.notify()
            yield item

    def _take(self) -> T | _End:
        while True:
            with contextlib.suppress(queue.Empty):
                return self._ready.get(timeout=_POLL)
            self._idle()

    def close(self) -> None:
        """Let the thread end, after what it is reading; a command that it waits for is killed."""
        self._stop.set()
        end_commands(self._thread)

    def _read(self) -> None:
        error: BaseException | None = None
        try:
            with contextlib.closing(self._items) as items:
                for item in items:
                    size = self._weigh(item)
                    with self._changed:
                        while self._held and self._held + size > self._most and not self._stop.is_set():
                            self._changed.wait(_POLL)
                        self._held += size
                    if not self._put(item):
                        return
        except BaseException as caught:  # noqa: BLE001 - raised where items are taken
            error = caught
        self._put(_End(error))

    def _put(self, item: T | _End) -> bool:
        while not self._stop.is_set():
            with contextlib.suppress(queue.Full):
                self._ready.put(item, timeout=_POLL)
                return True
        return False
