"""The SHA-256 of a shard's bytes as they are stored, taken while the shard is read for something else."""

import os
from collections.abc import Callable
from hashlib import sha256

from .base import SourceError, open_file

_PIECE = 4 << 20

Fetch = Callable[[int, int], bytes]  # first byte, byte after the last; raises SourceError


class Digest:
    """Hashes each byte once, in order. ``finish`` reads what nobody else has read; until then the shard stays open."""

    def __init__(self) -> None:
        self.size = 0  # bytes hashed so far
        self._hash = sha256()
        self._rest: Callable[[], object] = lambda: None

    def of_file(self, path: str) -> None:
        """Hash a local file: who reads it next finds it in memory. Raises SourceError."""
        file = open_file(path)
        try:
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            buffer = memoryview(bytearray(1 << 20))
            with open(file, "rb", buffering=0, closefd=False) as stream:
                while count := stream.readinto(buffer):
                    self._add(buffer[:count])
        except OSError as error:
            raise SourceError("io", str(error)) from None
        finally:
            os.close(file)

    def of_parts(self, fetch: Fetch, size: int, start: bytes = b"") -> Fetch:
        """Return ``fetch`` for a shard of ``size`` bytes, that also hashes what it gets, and what is left out between."""

        def up_to(offset: int) -> None:
            while self.size < offset:
                self._add(fetch(self.size, min(offset, self.size + _PIECE)))

        def hashed(first: int, stop: int) -> bytes:
            up_to(first)
            data = fetch(first, stop)
            self._add(data[self.size - first :])
            return data

        self._begin()
        self._add(start)
        self._rest = lambda: up_to(size)
        return hashed

    def of_stream(self, read: Callable[[int], bytes]) -> Callable[[int], bytes]:
        """Return ``read`` of a stream, that also hashes; it gives fewer bytes than asked for at the end only."""
        ended = False

        def hashed(size: int) -> bytes:
            nonlocal ended
            data = b"" if ended else read(size)
            ended = len(data) < size
            self._add(data)
            return data

        def rest() -> None:
            while hashed(_PIECE):
                pass

        self._begin()
        self._rest = rest
        return hashed

    def finish(self) -> bytes:
        """Read the rest of the shard, and return the 32 bytes of the hash. Raises SourceError."""
        self._rest()
        return self._hash.digest()

    def _begin(self) -> None:
        """Start again: a shard that was replaced on its server is opened a second time."""
        self.size, self._hash = 0, sha256()

    def _add(self, data: "bytes | memoryview") -> None:
        self._hash.update(data)
        self.size += len(data)
