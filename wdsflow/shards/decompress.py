"""Decompression in small, bounded steps, ending where Python's tarfile would end.

tarfile reads 512 and then 10,240 compressed bytes at a time. If one such buffer is damaged, all that it would have
given is lost to its readers; so it is here, or we would count members that nobody gets.
"""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any

PIECE = 1 << 20  # bytes handed on at once at most
_PENDING = 8 << 20  # bytes of one buffer held back until it is known to be sound; bombs get no more
_MEMORY = 256 << 20  # bytes that an xz dictionary may take
_WINDOW = 128 << 20  # the same for zstd

Raw = Callable[[], bytes]  # the next compressed bytes; empty at the end


class Damaged(Exception):
    """The stream is damaged; what came before stays valid."""


def compression_of(start: bytes) -> str | None:
    """Tell the compression by the first bytes, as tarfile does, and zstd."""
    if start.startswith(b"\x1f\x8b\x08"):
        return "gz"
    if start[:3] == b"BZh" and start[4:10] == b"1AY&SY":
        return "bz2"
    if start.startswith((b"\x5d\x00\x00\x80", b"\xfd7zXZ")):
        return "xz"
    return "zst" if start.startswith(b"\x28\xb5\x2f\xfd") else None


class Stream:
    """One compressed stream."""

    def __init__(self, raw: Raw, start: bytes) -> None:
        self.raw, self.start = raw, start
        self.complete = False
        self.rest = b""  # what was read behind its end
        self.raises = False  # tarfile raises EOFError when it is asked to read on

    def pieces(self) -> Iterator[bytes]:
        """Yield what it holds; some may be empty. Raises ``Damaged``."""
        raise NotImplementedError

    def after(self) -> bytes:
        """Return the first bytes that follow the stream; empty at the end."""
        more = self.raw()
        self.raises = bool(more)
        return self.rest + more

    def _buffers(self) -> Iterator[bytes]:
        yield self.start
        yield from iter(self.raw, b"")


class _Stepwise(Stream):
    errors: tuple[type[Exception], ...] = (OSError,)
    name = ""

    def make(self) -> Any:
        """Return the decompressor."""
        raise NotImplementedError

    def pieces(self) -> Iterator[bytes]:
        engine = self.make()
        for data in self._buffers():
            pending: list[bytes] = []
            try:
                for piece in self.steps(engine, data):
                    pending.append(piece)
                    if len(pending) > _PENDING // PIECE:
                        yield from pending
                        pending.clear()
            except self.errors as error:
                raise Damaged(f"damaged {self.name} stream: {error}") from None
            yield from pending
            if engine.eof:
                self.complete, self.rest = True, engine.unused_data
                return

    def steps(self, engine: Any, data: bytes) -> Iterator[bytes]:
        """Decompress one buffer, a piece at a time."""
        while True:
            piece = engine.decompress(data, PIECE)
            yield piece
            if engine.eof or (engine.needs_input and len(piece) < PIECE):
                return
            data = b""


class Bzip2(_Stepwise):
    """bzip2."""

    name = "bzip2"

    def make(self) -> Any:
        """Return the decompressor."""
        return bz2.BZ2Decompressor()


class Xz(_Stepwise):
    """xz, and the older lzma."""

    name, errors = "xz", (lzma.LZMAError, EOFError)

    def make(self) -> Any:
        """Return the decompressor."""
        return lzma.LZMADecompressor(memlimit=_MEMORY)


class Gzip(_Stepwise):
    """gzip; the checksum behind the data is ignored, as tarfile does."""

    name, errors = "gzip", (zlib.error,)

    def make(self) -> Any:
        """Return the decompressor."""
        return zlib.decompressobj(-zlib.MAX_WBITS)

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
            yield piece
            data = engine.unconsumed_tail
            if engine.eof or (not data and len(piece) < PIECE):
                return

    def after(self) -> bytes:
        """Return what follows the stream, without its checksum; empty at the end."""
        rest = self.rest
        while len(rest) < 8 and (data := self.raw()):
            rest += data
        return rest[8:] or self.raw()


def _gzip_header(head: bytes) -> int | None:
    """Return the length of a gzip header, None while bytes are missing. Raises ``Damaged``."""
    if len(head) < 10:
        return None
    flags, at = head[3], 10
    if flags & 4:
        raise Damaged("the gzip header has an extra field, as bgzip writes: Python's tarfile cannot stream that")
    for flag in (8, 16):
        if flags & flag:
            end = head.find(0, at)
            if end < 0:
                return None
            at = end + 1
    at += 2 if flags & 2 else 0
    return at if at <= len(head) else None


class Zstd(Stream):
    """zstd; all frames that follow each other are one stream."""

    def pieces(self) -> Iterator[bytes]:
        """Yield what it holds. Raises ``Damaged`` and ``ImportError``."""
        import zstandard

        buffers = self._buffers()
        held = bytearray()

        class Reader:
            def read(self, size: int = -1) -> bytes:
                while len(held) < max(size, 1) and (data := next(buffers, b"")):
                    held.extend(data)
                taken = bytes(held[:size])
                del held[:size]
                return taken

        engine = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
        with engine.stream_reader(Reader(), read_across_frames=True) as reader:  # type: ignore[arg-type]
            try:
                while piece := reader.read(PIECE):
                    yield piece
            except zstandard.ZstdError as error:
                raise Damaged(f"damaged zstd stream: {error}") from None
        self.complete = True


CODECS: dict[str | None, type[Stream]] = {"gz": Gzip, "bz2": Bzip2, "xz": Xz, "zst": Zstd}
