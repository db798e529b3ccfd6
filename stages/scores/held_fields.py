"""The fields of a sample, wherever they are stored."""

import io
from collections.abc import Iterator
from typing import Any, Protocol


class Fields(Protocol):
    """The fields of one sample: names as readers give them (lower case), sizes, ranges of bytes."""

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""

    def __contains__(self, name: object, /) -> bool:
        """Return whether a field exists."""

    def size(self, name: str) -> int:
        """Return the size of a field in bytes."""

    def read(self, name: str, start: int, size: int) -> bytes:
        """Return ``size`` bytes of a field from ``start`` on. Fewer only where the shard lacks them."""


class Held(dict[str, bytes]):
    """The fields of a sample that is in memory."""

    def size(self, name: str) -> int:
        """Return the size of a field in bytes."""
        return len(self[name])

    def read(self, name: str, start: int, size: int) -> bytes:
        """Return a part of a field."""
        data = self[name]
        return data if not start and size == len(data) else data[start : start + size]


class FieldReader(Protocol):
    """Reads a sample's fields, and counts the bytes."""

    fields: Fields

    def read(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        """Return a part of a field, all of it by default. Raises ScoreError."""


def as_file(reader: FieldReader, name: str) -> io.RawIOBase:
    """Return a field as a file of which only what is asked for is read. It raises ScoreError where that cannot be had."""
    return _Ranges(reader, name)


class _Ranges(io.RawIOBase):
    """A field as a file of which only what is asked for is read."""

    def __init__(self, reader: FieldReader, name: str) -> None:
        self._reader, self._name, self._at = reader, name, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        start = (0, self._at, self._reader.fields.size(self._name))[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = b""
        if self._at < self._reader.fields.size(self._name):
            data = self._reader.read(self._name, self._at, len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
