"""Read, compare and copy the contents of members."""

import io
import posixpath
import tarfile
from collections.abc import Iterable
from contextlib import nullcontext

from wdsflow.pieces.joined_source import JoinedSource
from wdsflow.pieces.new_members import moved
from wdsflow.pieces.pieces import address
from wdsflow.shards.source.base import Piece, Source
from wdsflow.shards.tar.members import Member

_CHUNK = 1 << 20
_HEADERS = 64 << 10  # bytes that hold a link's header with its extended headers


class Contents:
    """The contents of one shard's members, and of members taken from another shard."""

    def __init__(self, source: Source) -> None:
        self._sources = [source]
        self._elsewhere: dict[int, Member] = {}

    @property
    def source(self) -> Source:
        """The source of the pieces."""
        if len(self._sources) == 1:
            return self._sources[0]
        return JoinedSource(lambda number: nullcontext(self._sources[number]), lambda _: 2)

    def adopt(self, member: Member, source: Source) -> None:
        """Record that this member is in another source, the same for all."""
        self._elsewhere[id(member)] = member
        self._sources[1:] = [source]

    def read(self, member: Member, size: int | None = None) -> bytes:
        """Return the first ``size`` bytes, or all. Raises SourceChangedError if the source ends early."""
        return self.part(member, 0, member.size if size is None else size)

    def part(self, member: Member, start: int, size: int) -> bytes:
        """Return up to ``size`` bytes from ``start`` on. Raises SourceChangedError if the source ends early."""
        return self._of(member).exactly(member.data + start, max(0, min(size, member.size - start)))

    def same(self, one: Member, other: Member) -> bool:
        """Return whether two members have the same contents."""
        if one.size != other.size:
            return False
        if one is other:
            return True
        for start in range(0, one.size, _CHUNK):
            step = min(_CHUNK, one.size - start)
            mine = self._of(one).exactly(one.data + start, step)
            if mine != self._of(other).exactly(other.data + start, step):
                return False
        return True

    def pieces(self, member: Member, name: str) -> Iterable[Piece]:
        """Return the pieces of a member under another name."""
        return moved(name, address(self._number(member), member.data), member.size)

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
        return self._sources[self._number(member)]

    def _number(self, member: Member) -> int:
        return int(id(member) in self._elsewhere)
