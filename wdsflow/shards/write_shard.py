"""Write a shard so that it is there whole, or not at all."""

import os
import tarfile
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from .atomic import create, discard, naming, sync_folder
from .samples.file_sink import Sink

BLOCK = 512
_CAN_FILL = hasattr(os, "preadv")  # not on Windows
_SMALL = 256 << 10  # up to this size contents that are not local are read through windows
_WINDOW = 4 << 20
_LARGEST = 0o77777777777  # what a USTAR size field can hold
_OWNER = b"bigdata"  # as webdataset's own writer
_MODE = b"0000444\x000000000\x000000000\0"  # and user and group
_TIME = b"\x0000000000000\0"
_REST = b"0".ljust(101, b"\0") + b"ustar\x0000" + _OWNER.ljust(32, b"\0") * 2 + b"0000000\0" * 2
_FIXED = sum(_MODE + _TIME + _REST) + 8 * 32  # the checksum itself counts as blanks


class Readable(Protocol):
    """Where contents come from."""

    fd: int  # of a plain local file, else negative

    def read_at(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset``, fewer only at the end."""


class ShortSourceError(OSError):
    """A source has fewer bytes than it should."""


class ShardWriter:
    """Writes a plain tar under a temporary name; ``commit`` puts it in its place in one step.

    The bytes depend on names and contents only: USTAR headers with fixed owner, mode and time 0, a longer one only
    where a name or a size does not fit. Used as a context manager it commits, or aborts where an error passes.

    Raises ShortSourceError if contents end early, FileExistsError if the file exists already and ``force`` is not
    given; OSError if the disk fails.
    """

    def __init__(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        self.path = Path(path)
        self.force = force
        self.members = 0
        self._windows: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._refuse_existing()
        self._name, self._file = create(self.path)
        self._sink = Sink(self._file, self.path)

    @property
    def size(self) -> int:
        """The bytes so far, those in the buffer included."""
        return self._sink.size

    def add_bytes(self, name: str, data: bytes) -> None:
        """Append a member."""
        self._sink.add(member(name, data))
        self.members += 1

    def add_range(self, name: str, source: Readable, offset: int, size: int) -> None:
        """Append a member whose contents are ``size`` bytes of ``source`` from ``offset``.

        Raises ShortSourceError if the source has fewer bytes than that.
        """
        sink = self._sink
        sink.add(header(name, size))
        if source.fd < 0 and size <= _SMALL:
            sink.add(self._read(source, offset, size))
        else:
            copy_range(sink, source, offset, offset + size)
        sink.add(bytes(-size % BLOCK))
        self.members += 1

    def commit(self) -> None:
        """Close the archive with two zero blocks, flush it to the disk and give it its name."""
        try:
            self._sink.add(bytes(2 * BLOCK))
            self._sink.end()
            self._refuse_existing()
            with naming(self.path):
                os.fsync(self._file)
                os.replace(self._name, self.path)
        except BaseException:
            self.abort()
            raise
        os.close(self._file)
        self._file = -1
        sync_folder(self.path.parent)

    def abort(self) -> None:
        """Leave nothing behind."""
        if self._file >= 0:
            try:
                self._sink.close()
            finally:
                discard(self._name, self._file)
                self._file = -1

    def __enter__(self) -> "ShardWriter":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.abort()
        elif self._file >= 0:
            self.commit()

    def _refuse_existing(self) -> None:
        if not self.force and self.path.exists():
            raise FileExistsError(f"{self.path} exists already")

    def _read(self, source: Readable, offset: int, size: int) -> bytes:
        """Read through a few large windows: small reads are slow where the source is far away."""
        for (known, start), window in self._windows.items():
            if known == id(source) and start <= offset and offset + size <= start + len(window):
                self._windows.move_to_end((known, start))
                return window[offset - start : offset - start + size]
        window = source.read_at(offset, max(size, _WINDOW))
        if len(window) < size:
            raise ShortSourceError(f"the source ends at byte {offset + len(window)}, {size - len(window)} too early")
        self._windows[id(source), offset] = window
        while len(self._windows) > 4:
            self._windows.popitem(last=False)
        return window[:size]


def copy_range(sink: Sink, source: Readable, start: int, end: int) -> None:
    """Append bytes of a source. Raises ShortSourceError if it has fewer, OSError."""
    while start < end:
        room = sink.room(end - start)
        if _CAN_FILL and source.fd >= 0:
            count = os.preadv(source.fd, [room], start)
        else:
            data = source.read_at(start, len(room))
            count = len(data)
            room[:count] = data
        if not count:
            raise ShortSourceError(f"the source ends at byte {start}, {end - start} too early")
        sink.took(count)
        start += count


def exactly(source: Readable, offset: int, size: int) -> bytes:
    """Read ``size`` bytes. Raises ShortSourceError if the source has fewer."""
    data = source.read_at(offset, size)
    if len(data) != size:
        raise ShortSourceError(f"the source ends at byte {offset + len(data)}, {size - len(data)} too early")
    return data


def header(name: str, size: int, *, extended: bool = False) -> bytes:
    """Return the header of a regular member: 512 bytes, more where a name or a size does not fit USTAR.

    ``extended``: repeat name and size in an extended header, which takes precedence over global ones.
    """
    raw = name.encode("utf-8", "surrogateescape")
    split = (b"", raw) if len(raw) <= 100 else _split(raw)
    if split is None or size > _LARGEST or not raw or extended:
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = size, 0o444, 0
        info.uname = info.gname = _OWNER.decode()
        info.pax_headers = {"path": name, "size": str(size)} if extended else {}
        # DALI knows long names as GNU tar writes them, and no PAX headers; all others know both.
        only_name = split is None and size <= _LARGEST and not extended
        return info.tobuf(tarfile.GNU_FORMAT if only_name else tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    prefix, base = split
    digits = b"%011o" % size
    checksum = _FIXED + sum(prefix) + sum(base) + sum(digits)
    return b"%b%b%b%b%06o\0 %b%b" % (
        base.ljust(100, b"\0"),
        _MODE,
        digits,
        _TIME,
        checksum,
        _REST,
        prefix.ljust(167, b"\0"),
    )


def member(name: str, data: bytes, *, extended: bool = False) -> bytes:
    """Return a member of a tar: its header, its contents and their padding."""
    return b"".join((header(name, len(data), extended=extended), data, bytes(-len(data) % BLOCK)))


def members(names: Sequence[bytes], contents: Sequence[bytes]) -> list[bytes]:
    """Return what ``member`` returns for each name, in UTF-8, and contents: of many, in a fraction of the time."""
    import numpy as np

    if not names or not all(0 < len(name) <= 100 for name in names):
        return [
            member(name.decode("utf-8", "surrogateescape"), data) for name, data in zip(names, contents, strict=True)
        ]
    plain = np.frombuffer(header("0", 0), np.uint8)
    headers = np.tile(plain, (len(names), 1))
    headers[:, :100] = np.array(names, "S100").view(np.uint8).reshape(-1, 100)
    sizes = np.array([len(data) for data in contents])
    headers[:, 124:135] = (sizes[:, None] >> np.arange(30, -1, -3) & 7) + ord("0")
    headers[:, 148:156] = ord(" ")
    sums = headers.sum(1, dtype=np.int64)
    headers[:, 148:154] = (sums[:, None] >> np.arange(15, -1, -3) & 7) + ord("0")
    headers[:, 154:156] = plain[154:156]
    data = headers.tobytes()
    return [
        b"".join((data[at : at + BLOCK], each, bytes(-len(each) % BLOCK)))
        for at, each in zip(range(0, len(data), BLOCK), contents, strict=True)
    ]


def _split(name: bytes) -> tuple[bytes, bytes] | None:
    """Part a long name at a slash so that both halves fit their fields."""
    cut = name.rfind(b"/", 0, 156)
    if cut < 1 or not 0 < len(name) - cut - 1 <= 100:
        return None
    return name[:cut], name[cut + 1 :]
