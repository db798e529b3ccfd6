"""Records in files by the hash of their key, so that all records of a key are together, and each part fits in memory."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from xxhash import xxh3_64_intdigest

from wdsflow.shards.atomic import naming

from .key_records import KeyRecord

_LARGEST = 24 << 20  # bytes of a part in its file; in memory, it takes about six times as many
_BUFFER = 32 << 10
_BITS, _DEEPER = 7, 16  # parts: 128, which any system lets a process open, and each of them in 16
_DEEPEST = 4  # from then on parts of one key, by their contents


class KeyParts:
    """Records, spread over files in ``folder``. Use as a context manager; the files are removed as they are read.

    Args:
        folder: exists; its disk takes about 180 bytes for a sample of three fields.
        largest: bytes of a part that is held in memory.
    """

    def __init__(self, folder: Path, largest: int = _LARGEST) -> None:
        self._folder, self._largest = folder, largest
        self._files: list[IO[bytes]] = []
        self._lock = threading.Lock()

    def __enter__(self) -> "KeyParts":  # noqa: PYI034 - Self needs Python 3.11
        for number in range(1 << _BITS):
            self._files.append(open(self._folder / f"{number:03d}", "wb", _BUFFER))
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            _close(file)

    def add(self, records: Iterable[KeyRecord]) -> None:
        """Add records; may be called by several threads. Raises OSError, which names a file."""
        packed = [(_hash_of(record.key) >> 64 - _BITS, record.dump()) for record in records]
        with self._lock, naming(self._folder):
            for part, data in packed:
                self._files[part].write(data)

    def parts(self) -> Iterator[list[KeyRecord]]:
        """Yield the records of one part after the other, once all have been added. Raises OSError."""
        with naming(self._folder):
            for file in self._files:
                file.close()
        for number in range(1 << _BITS):
            yield from self._read(self._folder / f"{number:03d}", 1)

    def _read(self, path: Path, depth: int) -> Iterator[list[KeyRecord]]:
        if path.stat().st_size <= self._largest or depth > _DEEPEST + 1:
            records = list(_records(path))
            path.unlink()
            if records:
                yield records
            return
        names = [path.with_name(f"{path.name}-{number:02d}") for number in range(_DEEPER)]
        files = [open(name, "wb", _BUFFER) for name in names]  # noqa: SIM115
        try:
            with naming(self._folder):
                for record in _records(path):
                    files[_place(record, depth)].write(record.dump())
                for file in files:
                    file.close()
        finally:
            for file in files:
                _close(file)
        path.unlink()
        for name in names:
            yield from self._read(name, depth + 1)


def _place(record: KeyRecord, depth: int) -> int:
    if depth <= _DEEPEST:
        return (_hash_of(record.key) >> (64 - _BITS - 4 * depth)) % _DEEPER
    return hash(tuple(field[:3] for field in record.fields)) % _DEEPER


def _hash_of(key: str) -> int:
    return xxh3_64_intdigest(key.encode("utf-8", "surrogatepass"))


def _records(path: Path) -> Iterator[KeyRecord]:
    with path.open("rb", 1 << 20) as file:
        yield from KeyRecord.read(file)


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # a full disk: what is buffered is not needed any more
        file.close()
