"""Write a shard so that it is there whole, or not at all."""

import os
import tarfile
from collections import OrderedDict
from pathlib import Path
from types import TracebackType
from typing import Protocol

from .atomic import create, discard, naming, sync_folder

BLOCK = 512
_SMALL = 256 << 10  # up to this size contents go through the write buffer, beyond it the kernel copies them
_BUFFER = 1 << 20
_WINDOW = 4 << 20
_COPY = 16 << 20
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
        self.size = 0  # bytes so far, those in the buffer included
        self._chunks: list[bytes] = []
        self._pending = 0
        self._windows: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._refuse_existing()
        self._name, self._file = create(self.path)

    def add_bytes(self, name: str, data: bytes) -> None:
        """Append a member."""
        self._put(header(name, len(data)), data, bytes(-len(data) % BLOCK))
        self.members += 1

    def add_range(self, name: str, source: Readable, offset: int, size: int) -> None:
        """Append a member whose contents are ``size`` bytes of ``source`` from ``offset``.

        Raises ShortSourceError if the source has fewer bytes than that.
        """
        if size <= _SMALL:
            self.add_bytes(name, exactly(source, offset, size) if source.fd >= 0 else self._read(source, offset, size))
        else:
            self._put(header(name, size))
            self._flush()
            done = self._send(source.fd, offset, size) if source.fd >= 0 else 0
            while done < size:
                step = min(_COPY, size - done)
                self._put(exactly(source, offset + done, step))
                done += step
            self._put(bytes(-size % BLOCK))
            self.members += 1

    def commit(self) -> None:
        """Close the archive with two zero blocks, flush it to the disk and give it its name."""
        try:
            self._put(bytes(2 * BLOCK))
            self._flush()
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
            discard(self._name, self._file)
            self._file = -1

    def __enter__(self) -> "ShardWriter":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file < 0:
            return
        if kind is None:
            self.commit()
        else:
            self.abort()

    def _refuse_existing(self) -> None:
        if not self.force and self.path.exists():
            raise FileExistsError(f"{self.path} exists already")

    def _put(self, *parts: bytes) -> None:
        self._chunks += parts
        size = sum(map(len, parts))
        self._pending += size
        self.size += size
        if self._pending >= _BUFFER:
            self._flush()

    def _flush(self) -> None:
        view = memoryview(b"".join(self._chunks))
        self._chunks, self._pending = [], 0
        with naming(self.path):
            while view:
                view = view[os.write(self._file, view) :]

    def _send(self, descriptor: int, offset: int, size: int) -> int:
        """Let the kernel copy; returns how far it came."""
        done = 0
        try:
            while done < size and (count := os.sendfile(self._file, descriptor, offset + done, size - done)):
                done += count
        except (AttributeError, OSError) as error:  # other systems send to sockets only; full disks show up in write
            if getattr(error, "errno", None) is not None and done:
                with naming(self.path):
                    raise
        self.size += done
        return done

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


def _split(name: bytes) -> tuple[bytes, bytes] | None:
    """Part a long name at a slash so that both halves fit their fields."""
    cut = name.rfind(b"/", 0, 156)
    if cut < 1 or not 0 < len(name) - cut - 1 <= 100:
        return None
    return name[:cut], name[cut + 1 :]
