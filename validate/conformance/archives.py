"""Writes generated members to a tar, and hurts the tar's bytes."""

import bz2
import io
import lzma
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

from .contents import zipped

BLOCK = 512
Kind = Literal["file", "directory", "symlink", "hardlink", "fifo", "old", "contiguous", "unknown", "sparse"]
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
            block = _header(info, tar_format)
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
    """Return an old GNU sparse header: the data come first, a hole of as many bytes behind them."""
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


Hurt = Callable[[Archive, Random], bytes]


def _member(archive: Archive, rng: Random) -> int:
    return rng.randrange(len(archive.headers)) if archive.headers else -1


def cut_in_data(archive: Archive, rng: Random) -> bytes:
    """End the file inside the contents of a member."""
    index = _member(archive, rng)
    if index < 0 or not archive.sizes[index]:
        return archive.data[:100]
    return archive.data[: archive.headers[index] + BLOCK + rng.randrange(archive.sizes[index])]


def cut_in_padding(archive: Archive, rng: Random) -> bytes:
    """End the file behind the contents of a member, before the next block begins."""
    index = _member(archive, rng)
    if index < 0 or not archive.sizes[index] % BLOCK:
        return archive.data
    start = archive.headers[index] + BLOCK + archive.sizes[index]
    return archive.data[: start + rng.randrange(-archive.sizes[index] % BLOCK)]


def cut_in_header(archive: Archive, rng: Random) -> bytes:
    """End the file inside a header."""
    index = _member(archive, rng)
    return archive.data[: archive.headers[index] + rng.randint(1, BLOCK - 1)] if index >= 0 else b"\0"


def cut_at_border(archive: Archive, rng: Random) -> bytes:
    """End the file where a member begins."""
    index = _member(archive, rng)
    return archive.data[: archive.headers[index]] if index >= 0 else b""


def no_end(archive: Archive, rng: Random) -> bytes:
    """Leave the zero blocks away, or all but a piece of them."""
    return archive.data[: archive.end + rng.choice((0, 0, 1, 511, 512, 513, 1024))]


def damaged_header(archive: Archive, rng: Random) -> bytes:
    """Change a byte of a header, or all of one of its fields."""
    index = _member(archive, rng)
    if index < 0:
        return archive.data
    data = bytearray(archive.data)
    start = archive.headers[index]
    damage = rng.randrange(5)
    if damage == 0:
        data[start + rng.randrange(BLOCK)] ^= 1 << rng.randrange(8)
    elif damage == 1:
        data[start : start + BLOCK] = rng.randbytes(BLOCK)
    elif damage == 2:
        data[start + 148 : start + 156] = b"garbage!"
    elif damage == 3:
        block = data[start : start + BLOCK]
        block[124:136] = rng.choice((b"99999999999\0", b"not a size!\0", b"           \0", b"-0000000007\0"))
        data[start : start + BLOCK] = with_checksum(block)
    else:
        data[start : start + BLOCK] = bytes(BLOCK)
    return bytes(data)


def zero_block_between(archive: Archive, rng: Random) -> bytes:
    """Put the end mark before a member."""
    index = _member(archive, rng)
    start = archive.headers[index] if index >= 0 else 0
    return archive.data[:start] + bytes(BLOCK * rng.randint(1, 3)) + archive.data[start:]


def trailing_junk(archive: Archive, rng: Random) -> bytes:
    """Put bytes behind the end."""
    return archive.data + rng.randbytes(rng.choice((1, 511, 512, 3000)))


def leading_junk(archive: Archive, rng: Random) -> bytes:
    """Put bytes in front."""
    return rng.randbytes(rng.choice((1, 512))) + archive.data


def twice(archive: Archive, rng: Random) -> bytes:
    """Put a second archive behind the first, with or without the first one's end mark."""
    return archive.data[: rng.choice((archive.end, len(archive.data)))] + archive.data


def big_number_size(archive: Archive, rng: Random) -> bytes:
    """Write the size of a member in base 256, as GNU tar does for large ones."""
    index = _member(archive, rng)
    if index < 0:
        return archive.data
    start = archive.headers[index]
    block = bytearray(archive.data[start : start + BLOCK])
    block[124:136] = b"\x80" + archive.sizes[index].to_bytes(11, "big")
    return archive.data[:start] + with_checksum(block) + archive.data[start + BLOCK :]


BYTE_HURTS: dict[str, Hurt] = {
    "cut-in-data": cut_in_data,
    "cut-in-padding": cut_in_padding,
    "cut-in-header": cut_in_header,
    "cut-at-border": cut_at_border,
    "no-end": no_end,
    "damaged-header": damaged_header,
    "zero-block-between": zero_block_between,
    "trailing-junk": trailing_junk,
    "leading-junk": leading_junk,
    "twice": twice,
    "big-number-size": big_number_size,
}

NO_TAR: dict[str, Callable[[Random], bytes]] = {
    "empty-file": lambda rng: b"",
    "zero-file": lambda rng: bytes(rng.choice((1, 511, 512, 1024, 10240))),
    "html": lambda rng: b"<html><head><title>403 Forbidden</title></head></html>\n" * rng.choice((1, 40)),
    "lfs-pointer": lambda rng: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n",
    "noise": lambda rng: rng.randbytes(rng.choice((1, 100, 512, 5000))),
    "no-members": lambda rng: write([], tarfile.USTAR_FORMAT).data,
}


def zstd(data: bytes) -> bytes:
    """Compress with zstd."""
    import zstandard

    return zstandard.ZstdCompressor().compress(data)


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "gz": zipped,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd,
}
