"""A tar from one of its members on."""

from .base import Source


class SourcePart(Source):
    """The bytes of a source from an offset on, after some others; the source stays open."""

    def __init__(self, whole: Source, start: int, before: bytes = b"") -> None:
        self._whole, self._start, self._before = whole, start - len(before), before
        self.url, self.random = whole.url, whole.random
        self.length = None if whole.length is None else whole.length - self._start

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes from an offset of the part; fewer at its end. Raises ``SourceError``."""
        head = self._before[offset : offset + size]
        rest = size - len(head)
        return head + self._whole.read_at(self._start + offset + len(head), rest) if rest > 0 else head
