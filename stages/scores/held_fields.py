"""The fields of a sample, wherever they are stored."""

from collections.abc import Iterator
from typing import Protocol


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
