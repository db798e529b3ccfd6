"""Read, compare and copy the contents of members."""

import io
import posixpath
import tarfile

from wdsflow.shards.source.base import Source
from wdsflow.shards.tar.members import Member
from wdsflow.shards.write_shard import ShardWriter, exactly

_CHUNK = 1 << 20
_HEADERS = 64 << 10  # bytes that hold a link's header with its extended headers


class Contents:
    """The contents of one shard's members, and of members taken from another shard."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._elsewhere: dict[int, tuple[Member, Source]] = {}

    def adopt(self, member: Member, source: Source) -> None:
        """Record that this member is in another source."""
        self._elsewhere[id(member)] = member, source

    def read(self, member: Member, size: int | None = None) -> bytes:
        """Return the first ``size`` bytes, or all. Raises ShortSourceError if the source ends early."""
        return self.part(member, 0, member.size if size is None else size)

    def part(self, member: Member, start: int, size: int) -> bytes:
        """Return up to ``size`` bytes from ``start`` on. Raises ShortSourceError if the source ends early."""
        return exactly(self._of(member), member.data + start, max(0, min(size, member.size - start)))

    def same(self, one: Member, other: Member) -> bool:
        """Return whether two members have the same contents."""
        if one.size != other.size:
            return False
        if one is other:
            return True
        for start in range(0, one.size, _CHUNK):
            step = min(_CHUNK, one.size - start)
            mine = exactly(self._of(one), one.data + start, step)
            if mine != exactly(self._of(other), other.data + start, step):
                return False
        return True

    def copy(self, member: Member, name: str, writer: ShardWriter) -> None:
        """Append the member to a shard under another name."""
        writer.add_range(name, self._of(member), member.data, member.size)

    def link_target(self, member: Member) -> str | None:
        """Return the name of the member that a link points to; None if it leads out of the archive."""
        stream = io.BytesIO(self._of(member).read_at(member.header, _HEADERS))
        try:
            with tarfile.open(fileobj=stream, mode="r:") as tar:
                info = tar.next()
        except (tarfile.TarError, OSError, ValueError):
            return None
        if info is None or not info.linkname or info.linkname.startswith("/"):
            return None
        if info.islnk():
            return info.linkname
        return posixpath.join(posixpath.dirname(member.name), info.linkname)

    def _of(self, member: Member) -> Source:
        return self._elsewhere[id(member)][1] if id(member) in self._elsewhere else self._source
