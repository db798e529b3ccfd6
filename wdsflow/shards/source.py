"""Bytes of a shard, wherever it lies and however it is packed."""

import os
import stat
from typing import Literal

Trouble = Literal["missing", "denied", "io", "needs-library", "refused"]
HISTORY = 1 << 20  # bytes behind the latest request that a forward source can still give


class SourceError(OSError):
    """A shard that cannot be opened or read. ``kind`` says why."""

    def __init__(self, kind: Trouble, detail: str):
        super().__init__(detail)
        self.kind: Trouble = kind


class Source:
    """Random or forward access to the bytes of one tar. Closes as a context manager."""

    url: str
    size: int | None = None  # bytes as stored
    compression: str | None = None
    length: int | None = None  # bytes of the tar, where known
    bytes_read: int = 0  # of what is stored
    damage: str | None = None  # why it ends before its time
    breaks: bool = False  # a stream reader gets an exception at that end, rather than an end of file
    random: bool = True  # any offset can be read at any time; otherwise only onwards, see ``HISTORY``
    fd: int = -1  # of a plain local file

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes of the uncompressed tar; fewer at its end. Raises ``SourceError``."""
        raise NotImplementedError

    def reaches(self, end: int) -> bool:
        """Tell whether the tar has at least ``end`` bytes."""
        if self.length is not None:
            return end <= self.length
        return end <= 0 or bool(self.read_at(end - 1, 1))

    def ahead(self, offset: int, size: int) -> None:
        """Say that these bytes will be wanted soon."""

    def hop(self, on: bool) -> bool:
        """Announce reads far apart from each other; tell whether that is sensible here."""
        return False

    def close(self) -> None:
        """Give everything back."""

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LocalSource(Source):
    """A plain file on this machine, read by ``os.pread``."""

    def __init__(self, url: str, path: str):
        self.url = url
        self.fd = open_file(path)
        self.length: int = os.fstat(self.fd).st_size
        self.size = self.length

    def read_at(self, offset: int, size: int) -> bytes:
        size = min(size, self.length - offset)
        data = os.pread(self.fd, size, offset) if size > 0 else b""
        while 0 < len(data) < size and (more := os.pread(self.fd, size - len(data), offset + len(data))):
            data += more
        self.bytes_read += len(data)
        return data

    def ahead(self, offset: int, size: int) -> None:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.fd, offset, size, os.POSIX_FADV_WILLNEED)

    def hop(self, on: bool) -> bool:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_RANDOM if on else os.POSIX_FADV_NORMAL)
        return True

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def open_file(path: str) -> int:
    """Open a regular file for reading. Raises ``SourceError``."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise SourceError("missing", "no such file") from None
    except PermissionError:
        raise SourceError("denied", "permission denied") from None
    except (OSError, ValueError) as error:
        raise SourceError("io", str(error)) from None
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise SourceError("io", "is a folder")
    raise SourceError("refused", "is no regular file")


def open_source(url: str, *, allow_pipe: bool = False) -> Source:
    """Open a shard. Raises ``SourceError``."""
    return LocalSource(url, url)
