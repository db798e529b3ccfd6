"""A tar from one of its members on."""

from .base import Source


class SourcePart(Source):
    """The bytes of a source from an offset on; the source stays open."""

    def __init__(self, whole: Source, start: int) -> None:
        self._whole, self._start = whole, start
        self.url, self.random = whole.url, whole.random
        self.length = None if whole.length is None else whole.length - start

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes from an offset of the part; fewer at its end. Raises ``SourceError``."""
        return self._whole.read_at(self._start + offset, size)
