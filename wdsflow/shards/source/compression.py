"""Which compression a file or a stream of bytes has."""

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
