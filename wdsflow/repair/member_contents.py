"""The contents of members, as far as samples are formed by them."""

import io
import posixpath
import sys
import tarfile

from wdsflow.shards.source.base import Source
from wdsflow.shards.tar.members import Member

from .field_contents import MOST_DECODED, decodes
from .regroup import ContentReader

_CHUNK = 1 << 20
# Bytes that hold a link's header with its extended headers.
_LINK_HEADERS = 64 << 10


def read_contents(source: Source, member: Member, start: int = 0, size: int = sys.maxsize) -> bytes:
    """Return up to ``size`` bytes of a member from ``start`` on.

    Raises SourceChangedError if the source ends early.
    """
    return source.read_exactly(member.data + start, max(0, min(size, member.size - start)))


def content_reader(source: Source) -> ContentReader:
    """Return functions that read the members of a source."""
    digests: dict[int, bytes] = {}

    def link_target(member: Member) -> str | None:
        return _link_target(source, member)

    def digest(member: Member) -> bytes:
        if member.data not in digests:
            digests[member.data] = _digest(source, member)
        return digests[member.data]

    def field_decodes(name: str, member: Member) -> bool:
        return member.size > MOST_DECODED or decodes(name, read_contents(source, member))

    return ContentReader(link_target, digest, field_decodes)


def _digest(source: Source, member: Member) -> bytes:
    from xxhash import xxh3_128

    digest = xxh3_128()
    for start in range(0, member.size, _CHUNK):
        digest.update(read_contents(source, member, start, _CHUNK))
    return digest.digest()


def _link_target(source: Source, member: Member) -> str | None:
    """Return the name of the member that a link points to; None if it leads out of the archive."""
    size = min(_LINK_HEADERS, member.data - member.header)
    headers = io.BytesIO(source.read_at(member.header, size))
    try:
        with tarfile.open(fileobj=headers, mode="r:") as tar:
            info = tar.next()
    except (tarfile.TarError, OSError, ValueError):
        return None
    if info is None or not info.linkname or info.linkname.startswith("/"):
        return None
    if info.islnk():
        return info.linkname
    # A symbolic link starts at its own folder.
    return posixpath.join(posixpath.dirname(member.name), info.linkname)
