"""Open shards that several threads read from."""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from wdsflow.shards.source.base import local_path, open_file

_OPEN = 64  # files kept open; a shuffle buffer may spread over thousands


class _File:
    def __init__(self, fd: int) -> None:
        self.fd, self.users = fd, 0


class Files:
    """Keeps local shards open while they are in use, and some beyond."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, _File] = OrderedDict()
        self._lock = threading.Lock()
        self._most = _OPEN

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
