"""Copy ranges of one tar into another, so that the new one is there whole, or not at all."""

import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from wdsflow.filtering.samples import Range
from wdsflow.shards.atomic import create, discard, sync_folder
from wdsflow.shards.header import BLOCK
from wdsflow.shards.source import Source
from wdsflow.shards.write import ShortSourceError

_STEP = 64 << 20  # bytes the kernel copies in one call
_READ = 4 << 20
_SMALL = 256 << 10  # below it a read and a write beat a call that maps pages
_CANNOT = frozenset(
    (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ENOTSOCK, errno.EBADF, errno.ETXTBSY)
)


def merge(ranges: Iterable[Range]) -> list[Range]:
    """Sort ranges and join those that touch or overlap.

    >>> merge([(10, 20), (0, 5), (5, 10), (30, 40)])
    [(0, 20), (30, 40)]
    """
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = merged[-1][0], end
        else:
            merged.append((start, end))
    return merged


def write_ranges(path: Path, source: Source, ranges: Iterable[Range]) -> int:
    """Write a tar that consists of ranges of another, and return its size in bytes.

    Whole members go in, headers and padding included, in the order in which they lie; two zero blocks end the file. A last
    padding that the source lacks is made up. Replaces a file of that name, in one step.
    Raises ShortSourceError where the source ends early, OSError as the disk does; then nothing is left behind.
    """
    return write_pieces(path, source, merge(ranges))


def write_pieces(path: Path, source: Source, pieces: Iterable[Range | bytes]) -> int:
    """Write a tar that consists of ranges of another and of bytes, in the order given. As ``write_ranges`` else."""
    name, file = create(path)
    try:
        copier = _Copier(source, file)
        for piece in _joined(pieces):
            if isinstance(piece, bytes):
                copier.add(piece)
            else:
                copier.copy(*piece)
        copier.end()
        os.fsync(file)
        os.replace(name, path)
    except BaseException:
        discard(name, file)
        raise
    os.close(file)
    sync_folder(path.parent)
    return copier.size


def _joined(pieces: Iterable[Range | bytes]) -> Iterator[Range | bytes]:
    """Join ranges that follow each other, and leave out those that are empty."""
    start = end = 0
    for piece in pieces:
        if not isinstance(piece, bytes) and piece[0] == end:
            end = piece[1]
            continue
        if end > start:
            yield start, end
        start, end = (end, end) if isinstance(piece, bytes) else piece
        if isinstance(piece, bytes):
            yield piece
    if end > start:
        yield start, end


class _Copier:
    def __init__(self, source: Source, file: int) -> None:
        self.source, self.file = source, file
        self.size = 0
        self._held: list[bytes] = []
        self._waiting = 0
        self._ways = [way for way in (_copy_file_range, _sendfile) if source.fd >= 0]

    def copy(self, start: int, end: int) -> None:
        """Append a range."""
        length = self.source.length
        missing = 0 if length is None else max(0, end - length)
        if missing >= BLOCK:
            raise ShortSourceError(f"the source ends at byte {length}, {missing} too early")
        if end - start <= _SMALL:
            self._hold(self._exactly(start, end - missing - start))
        else:
            self._flush()
            self._copy_large(start, end - missing)
        if missing:
            self._hold(bytes(missing))

    def add(self, data: bytes) -> None:
        """Append bytes."""
        self._hold(data)

    def end(self) -> None:
        """Append the end mark."""
        self._hold(bytes(2 * BLOCK))
        self._flush()

    def _copy_large(self, at: int, end: int) -> None:
        while at < end:
            count = self._by_kernel(at, min(_STEP, end - at))
            if not count:
                data = self._exactly(at, min(_READ, end - at))
                count = len(data)
                self._write(data)
            at += count
            self.size += count

    def _by_kernel(self, at: int, size: int) -> int:
        while self._ways:
            try:
                count = self._ways[0](self.source.fd, self.file, at, size)
            except OSError as error:
                if error.errno not in _CANNOT:
                    raise
                count = 0
            except AttributeError:  # not on this system
                count = 0
            if count:
                return count
            self._ways.pop(0)  # some file systems say so by copying nothing
        return 0

    def _exactly(self, at: int, size: int) -> bytes:
        data = self.source.read_at(at, size)
        if len(data) != size:
            raise ShortSourceError(f"the source ends at byte {at + len(data)}, {size - len(data)} too early")
        return data

    def _hold(self, data: bytes) -> None:
        self._held.append(data)
        self._waiting += len(data)
        self.size += len(data)
        if self._waiting >= _READ:
            self._flush()

    def _flush(self) -> None:
        data = b"".join(self._held)
        self._held, self._waiting = [], 0
        self._write(data)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.file, view) :]


def _copy_file_range(source: int, target: int, at: int, size: int) -> int:
    return os.copy_file_range(source, target, size, offset_src=at)


def _sendfile(source: int, target: int, at: int, size: int) -> int:
    return os.sendfile(target, source, at, size)
