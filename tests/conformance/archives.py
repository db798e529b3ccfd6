"""Writes generated members to a tar, and says where they are in it."""

import io
import tarfile
from dataclasses import dataclass, field
from typing import Literal

BLOCK = 512
Kind = Literal[
    "file", "directory", "symlink", "hardlink", "fifo", "old", "contiguous", "unknown", "sparse"
]
_TYPES = {
    "file": tarfile.REGTYPE,
    "directory": tarfile.DIRTYPE,
    "symlink": tarfile.SYMTYPE,
    "hardlink": tarfile.LNKTYPE,
    "fifo": tarfile.FIFOTYPE,
    "old": tarfile.AREGTYPE,
    "contiguous": tarfile.CONTTYPE,
    "unknown": b"Z",
}
Format = Literal[0, 1, 2]
FORMATS: tuple[Format, ...] = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)


@dataclass(slots=True)
class Entry:
    """One member to be written."""

    name: str
    data: bytes = b""
    kind: Kind = "file"
    # Records of an extended header, which makes it PAX.
    pax: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Archive:
    """The bytes of a tar, and where each member's last header block and contents begin."""

    data: bytes
    headers: tuple[int, ...]
    sizes: tuple[int, ...]
    end: int  # where the zero blocks begin


def write(entries: list[Entry], tar_format: Format, *, float_time: bool = False) -> Archive:
    """Write members to a tar. ``float_time`` gives each a PAX header of its own."""
    stream = io.BytesIO()
    headers, sizes = [], []
    for entry in entries:
        info = tarfile.TarInfo(entry.name)
        info.size = len(entry.data)
        info.mtime = 1.5 if float_time else 0
        if entry.kind == "sparse":
            block = _sparse(info, entry.data)
        else:
            info.type = _TYPES[entry.kind]
            info.linkname = "target" if entry.kind in ("symlink", "hardlink") else ""
            info.pax_headers = entry.pax
            block = _header(info, tarfile.PAX_FORMAT if entry.pax else tar_format)
        stream.write(block)
        headers.append(stream.tell() - BLOCK)
        sizes.append(len(entry.data))
        stream.write(entry.data + bytes(-len(entry.data) % BLOCK))
    end = stream.tell()
    stream.write(bytes(tarfile.RECORDSIZE - end % tarfile.RECORDSIZE))
    if stream.tell() - end < 2 * BLOCK:
        stream.write(bytes(tarfile.RECORDSIZE))
    return Archive(stream.getvalue(), tuple(headers), tuple(sizes), end)


def _header(info: tarfile.TarInfo, tar_format: Format) -> bytes:
    try:
        return info.tobuf(tar_format, "utf-8", "surrogateescape")
    except ValueError:  # USTAR has no room for the name
        return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _sparse(info: tarfile.TarInfo, data: bytes) -> bytes:
    """Return an old GNU sparse header: the data come first, a hole of as many bytes after them."""
    info.type = tarfile.GNUTYPE_SPARSE
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape"))
    block[386:398] = b"%011o\0" % 0
    block[398:410] = b"%011o\0" % len(data)
    block[483:495] = b"%011o\0" % len(data)
    return with_checksum(block)


def with_checksum(block: bytearray) -> bytes:
    """Return a header with its checksum set right."""
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)
