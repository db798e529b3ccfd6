"""Which compression a file or a stream of bytes has."""

import os

from wdsflow.text.shell import quote_path

_ANY = bytes(range(256))
# What each byte at the start may be.
_MAGIC: tuple[tuple[str, tuple[bytes, ...]], ...] = (
    ("gz", (b"\x1f", b"\x8b", b"\x08")),
    ("bz2", (b"B", b"Z", b"h", _ANY, b"1", b"A", b"Y", b"&", b"S", b"Y")),
    ("xz", (b"\xfd", b"7", b"z", b"X", b"Z")),
    ("xz", (b"\x5d", b"\0", b"\0", b"\x80")),
    ("zst", (b"\x28", b"\xb5", b"\x2f", b"\xfd")),
    ("zst", (bytes(range(0x50, 0x60)), b"\x2a", b"\x4d", b"\x18")),  # a frame to skip: pzstd begins with one
)

UNPACK = "; to unpack it: "  # before the command, in messages about files that Python cannot read as a stream
_TOOLS = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "zstd"}


def unpack_command(path: str, kind: str) -> str:
    """Return the command that unpacks a file of this machine into a new one next to it, whatever its checksums say.

    >>> unpack_command("/none/a.tar.gz", "gz"), unpack_command("/none/a.tgz", "gz"), unpack_command("/none/a", "xz")
    ('gzip -dc /none/a.tar.gz > /none/a.tar', 'gzip -dc /none/a.tgz > /none/a.tar', 'xz -dc < /none/a > /none/a.tar')
    """
    stem, ending = os.path.splitext(path)
    known = ending in (f".{kind}", ".tgz")
    stem = (stem if known else path).removesuffix(".tar")
    target, number = f"{stem}.tar", 2
    while os.path.lexists(target):
        target, number = f"{stem}-{number}.tar", number + 1
    return f"{_TOOLS[kind]} -dc {'' if known else '< '}{quote_path(path)} > {quote_path(target)}"


def compression_of(start: bytes) -> str | None:
    r"""Tell the compression by the first bytes, as tarfile does, and zstd; what ends within these bytes counts.

    >>> compression_of(b"\x1f\x8b\x08 and more"), compression_of(b"\xfd7z"), compression_of(b"a name")
    ('gz', 'xz', None)
    """
    return _kind(start, least=2)


def follows(rest: bytes, kind: str) -> bool:
    """Return whether another stream of the same kind follows the first, be it only a byte of it."""
    return _kind(rest, least=1) == kind


def _kind(start: bytes, least: int) -> str | None:
    for kind, pattern in _MAGIC:
        length = min(len(start), len(pattern))
        if length >= least and all(byte in allowed for byte, allowed in zip(start, pattern, strict=False)):
            return kind
    return None
