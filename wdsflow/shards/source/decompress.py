"""Compressions, and decompression in small, bounded steps, ending where Python's tarfile would end.

Python's tarfile reads 512 and then 10,240 compressed bytes at a time. Its readers lose the contents
of a damaged buffer; so they are lost here, too, or members would be counted that no reader gets.

Damage shows late: a gzip checksum covers a whole member, that of xz a block, that of zstd a frame.
Bytes unpacked since the last checksum may be wrong. ``proven`` is how far the checksums reach.
"""

import bz2
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from wdsflow.text.shell import quote_path

_ANY = bytes(range(256))
# The values that each byte at the start may have.
_MAGIC: tuple[tuple[str, tuple[bytes, ...]], ...] = (
    ("gz", (b"\x1f", b"\x8b", b"\x08")),
    ("bz2", (b"B", b"Z", b"h", _ANY, b"1", b"A", b"Y", b"&", b"S", b"Y")),
    ("xz", (b"\xfd", b"7", b"z", b"X", b"Z")),
    ("xz", (b"\x5d", b"\0", b"\0", b"\x80")),
    ("zst", (b"\x28", b"\xb5", b"\x2f", b"\xfd")),
    # A frame to skip: pzstd begins with one.
    ("zst", (bytes(range(0x50, 0x60)), b"\x2a", b"\x4d", b"\x18")),
)

# Before the command, in messages about files that Python cannot read as a stream.
UNPACK = "; to unpack it: "
_TOOLS = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "zstd"}

# Bytes handed on at once at most.
PIECE = 1 << 20
# Bytes of one buffer held back until it is known to be sound; bombs get no more.
_PENDING = 8 << 20
# Bytes that an xz dictionary may take.
_MEMORY = 256 << 20
# The same for zstd.
_WINDOW = 128 << 20
# Bytes by which the length of a damaged gzip stream may differ from the unpacked bytes.
_NEAR = 16 << 20
# Bytes given to zstd at once: they can unfold to 4 MiB.
_SLICE = 128

# The next compressed bytes; empty at the end.
Raw = Callable[[], bytes]


def unpack_command(path: str, kind: str) -> str:
    """Return the command that decompresses a local file into a new one next to it.

    It works even if checksums do not match.

    >>> unpack_command("/none/a.tar.gz", "gz"), unpack_command("/none/a.tgz", "gz"), unpack_command("/none/a", "xz")
    ('gzip -dc /none/a.tar.gz > /none/a.tar', 'gzip -dc /none/a.tgz > /none/a.tar', 'xz -dc <
    /none/a > /none/a.tar')
    """
    stem, ending = os.path.splitext(path)
    known = ending in (f".{kind}", ".tgz")
    stem = (stem if known else path).removesuffix(".tar")
    target, number = f"{stem}.tar", 2
    while os.path.lexists(target):
        target, number = f"{stem}-{number}.tar", number + 1
    return f"{_TOOLS[kind]} -dc {'' if known else '< '}{quote_path(path)} > {quote_path(target)}"


def compression_of(start: bytes) -> str | None:
    r"""Return the compression of a file, judged by its first bytes.

    The rules are those of tarfile, plus zstd. A file that ends within these bytes counts too.

    >>> compression_of(b"\x1f\x8b\x08 and more"), compression_of(b"\xfd7z"), compression_of(b"a name")
    ('gz', 'xz', None)
    """
    return _kind(start, least=2)


def starts_another_stream(rest: bytes, kind: str) -> bool:
    """Return whether another stream of the same kind follows the first, be it only a byte of it."""
    return _kind(rest, least=1) == kind


def _kind(start: bytes, least: int) -> str | None:
    for kind, pattern in _MAGIC:
        length = min(len(start), len(pattern))
        if length >= least and all(
            byte in allowed for byte, allowed in zip(start, pattern, strict=False)
        ):
            return kind
    return None


class DamagedStream(Exception):
    """The stream cannot be unpacked further; the bytes before are right up to ``proven``."""


class UnsupportedStream(DamagedStream):
    """The stream may be valid, but Python's tarfile cannot unpack it."""


class CompressedStream:
    """One compressed stream."""

    # For messages.
    name = ""
    errors: tuple[type[Exception], ...] = (OSError,)
    # A block is given as a whole, after its checksum was compared.
    in_blocks = False
    # Returns a decompressor as Python's own.
    make: Callable[[], Any]

    def __init__(self, raw: Raw, start: bytes) -> None:
        self.raw, self.start = raw, start
        self.complete = False
        # Bytes read after its end.
        self.rest = b""
        # tarfile raises EOFError when it is asked to read on.
        self.raises = False
        # Bytes unpacked; those of them that a checksum covers.
        self.given = self.proven = 0
        # A mismatch, though it was unpacked to the end.
        self.wrong = ""

    def pieces(self) -> Iterator[bytes]:
        """Yield the decompressed contents; some pieces may be empty.

        Raises ``DamagedStream``, and ``ImportError`` for zstd.
        """
        engine = self.make()
        for data in self._buffers():
            pending: list[bytes] = []
            held = 0
            try:
                for piece in self.steps(engine, data):
                    pending.append(piece)
                    held += len(piece)
                    self.given += len(piece)
                    if held > _PENDING:
                        yield from pending
                        pending.clear()
                        held = 0
            except self.errors as error:
                raise DamagedStream(f"damaged {self.name} stream: {error}") from None
            if self.in_blocks or engine.eof:
                self.proven = self.given
            yield from pending
            if engine.eof:
                self.complete, self.rest = True, engine.unused_data
                return

    def _buffers(self) -> Iterator[bytes]:
        yield self.start
        yield from iter(self.raw, b"")

    def steps(self, engine: Any, data: bytes) -> Iterator[bytes]:
        """Decompress one buffer, a piece at a time."""
        while True:
            piece = engine.decompress(data, PIECE)
            yield piece
            if engine.eof or (engine.needs_input and len(piece) < PIECE):
                return
            data = b""

    def bytes_after(self) -> bytes:
        """Return the first bytes that follow the stream; empty at the end.

        May detect that the stream is incomplete.
        """
        more = self.raw()
        self.raises = bool(more)
        return self.rest + more

    def is_complete_but_damaged(self, tail: bytes) -> bool:
        """Return whether a stream that seems truncated is complete but damaged.

        It is if ``tail``, the end of the file, is that of a complete one.
        """
        return False


class Bzip2(CompressedStream):
    """bzip2."""

    name, make, in_blocks = "bzip2", staticmethod(bz2.BZ2Decompressor), True


class Xz(CompressedStream):
    """xz, and the older lzma."""

    name, errors = "xz", (lzma.LZMAError, EOFError)
    make = staticmethod(partial(lzma.LZMADecompressor, memlimit=_MEMORY))

    def is_complete_but_damaged(self, tail: bytes) -> bool:
        """Return whether the file ends with the two bytes that end each xz stream."""
        return tail.endswith(b"YZ")


class Gzip(CompressedStream):
    """A gzip stream.

    A checksum that does not match does not end the stream, because tarfile ignores it. It is noted
    in ``wrong``.
    """

    name, errors = "gzip", (zlib.error,)
    make = staticmethod(partial(zlib.decompressobj, -zlib.MAX_WBITS))
    _sum = 0

    def _buffers(self) -> Iterator[bytes]:
        head = b""
        for data in super()._buffers():
            head += data
            length = _gzip_header(head)
            if length is not None:
                yield head[length:]
                break
        yield from iter(self.raw, b"")

    def steps(self, engine: Any, data: bytes) -> Iterator[bytes]:
        """Decompress one buffer, a piece at a time."""
        while True:
            piece = engine.decompress(data, PIECE)
            self._sum = zlib.crc32(piece, self._sum)
            yield piece
            data = engine.unconsumed_tail
            if engine.eof or (not data and len(piece) < PIECE):
                return

    def bytes_after(self) -> bytes:
        """Return the bytes after the stream and its checksum; empty at the end."""
        rest = self.rest
        while len(rest) < 8 and (data := self.raw()):
            rest += data
        self.complete = len(rest) >= 8
        found, expected = (
            rest[:8],
            self._sum.to_bytes(4, "little") + (self.given & 0xFFFFFFFF).to_bytes(4, "little"),
        )
        if found != expected[: len(found)]:
            self.proven, self.wrong = 0, "its checksum or length does not match its contents"
        return rest[8:] or self.raw()

    def is_complete_but_damaged(self, tail: bytes) -> bool:
        """Return whether the file ends with a length close to the number of unpacked bytes.

        The length must be that of a tar: whole blocks.
        """
        length = int.from_bytes(tail[-4:], "little")
        return 0 < length == length // 512 * 512 and abs(length - (self.given & 0xFFFFFFFF)) < _NEAR


def _gzip_header(head: bytes) -> int | None:
    """Return the length of a gzip header, None while bytes are missing.

    Raises ``DamagedStream``.
    """
    if len(head) < 10:
        return None
    flags, at = head[3], 10
    if flags & 4:
        raise UnsupportedStream(
            "the gzip header has an extra field, as bgzip writes: Python's tarfile cannot stream that"
        )
    for flag in (8, 16):
        if flags & flag:
            end = head.find(0, at)
            if end < 0:
                return None
            at = end + 1
    at += 2 if flags & 2 else 0
    return at if at <= len(head) else None


class _ZstdFrame:
    """One frame, with the methods of Python's own decompressors.

    zstandard's output has no bound, and four bytes can unfold to 128 KiB: it gets small slices.
    """

    def __init__(self) -> None:
        from zstandard import ZstdDecompressor

        self._engine = ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
        self._left = memoryview(b"")

    def decompress(self, data: bytes, _: int) -> bytes:
        """Return the contents of the next slice. Raises ``ZstdError``."""
        if data:
            self._left = memoryview(data)
        piece = self._engine.decompress(self._left[:_SLICE])
        self._left = self._left[_SLICE:]
        return piece

    @property
    def needs_input(self) -> bool:
        """Whether all input is used up."""
        return not self._left

    @property
    def eof(self) -> bool:
        return self._engine.eof

    @property
    def unused_data(self) -> bytes:
        return self._engine.unused_data + bytes(self._left)


class Zstd(CompressedStream):
    """zstd; all frames that follow each other are one stream."""

    name, make = "zstd", _ZstdFrame

    def pieces(self) -> Iterator[bytes]:
        """Yield the contents of all frames."""
        import zstandard

        self.errors = (zstandard.ZstdError,)
        yield from super().pieces()
        while self.complete:
            while len(self.rest) < 4 and (data := self.raw()):
                self.rest += data
            if not starts_another_stream(self.rest, "zst"):
                return
            self.start, self.rest, self.complete = self.rest, b"", False
            yield from super().pieces()


CODECS: dict[str | None, type[CompressedStream]] = {"gz": Gzip, "bz2": Bzip2, "xz": Xz, "zst": Zstd}
