"""The fields of a sample in a tar, of which scores read what they need."""

from collections.abc import Iterator, Mapping

from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.tar.plain_entries import Row

from .staging import MemberContent, StoredMember


class TarFields:
    """The fields of the latest sample of a shard: names, sizes and ranges of bytes.

    ``staged``: the fields after its stages.
    """

    __slots__ = ("_fields", "rows", "samples")

    def __init__(
        self, samples: Samples, sample: TarSample, staged: Mapping[str, MemberContent] | None = None
    ) -> None:
        self.samples, self.rows = samples, sample.fields
        self._fields: Mapping[str, Row | MemberContent] = self.rows if staged is None else staged

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def size(self, name: str) -> int:
        """Return the size of a field in bytes."""
        value = self._fields[name]
        return len(value) if isinstance(value, bytes) else _row_of(value)[1]

    def read(self, name: str, start: int, size: int) -> bytes:
        """Return a part of a field. Raises OSError if the disk fails."""
        value = self._fields[name]
        if isinstance(value, bytes):
            return value[start : start + size]
        return self.samples.read(_row_of(value), start, size)


def _row_of(value: Row | StoredMember) -> Row:
    return value.row if isinstance(value, StoredMember) else value
