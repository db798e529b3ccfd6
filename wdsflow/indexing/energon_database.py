"""Energon's database of samples, ``.nv-meta/index.sqlite``, as version 7 writes it."""

import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from wdsflow.shards.atomic import (
    create_temporary,
    discard_temporary,
    os_errors_named,
    remove_stale_files,
    sync_folder,
)

from .sample_rows import RowChunk, SampleRows, chunks_of

_TABLES = """
CREATE TABLE samples (tar_file_id INTEGER NOT NULL, sample_key TEXT NOT NULL UNIQUE, sample_index INTEGER NOT NULL,
                      byte_offset INTEGER, byte_size INTEGER);
CREATE TABLE sample_parts (tar_file_id INTEGER, sample_index INTEGER, part_name TEXT, content_byte_offset INTEGER,
                           content_byte_size INTEGER);
"""
_INDEXES = """
CREATE INDEX idx_samples_by_tar_and_idx ON samples(tar_file_id, sample_index);
CREATE INDEX idx_sample_parts_seq ON sample_parts(tar_file_id, sample_index, content_byte_offset);
CREATE INDEX idx_sample_parts_full ON sample_parts(tar_file_id, sample_index, part_name, content_byte_offset,
                                                   content_byte_size);
"""


class CannotIndex(ValueError):
    """Energon has no index of such a shard."""


class EnergonDatabase:
    """Collects samples under a temporary name; ``commit`` renames the database. A context manager.

    Shards may come in any order. Their samples are inserted in the order of the shards, because the
    bytes of the database depend on it; rows of later shards are kept in a temporary file until
    then.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(exist_ok=True)
        remove_stale_files(path.parent)
        self._name, self._file = create_temporary(path)
        self._connection = sqlite3.connect(self._name, isolation_level=None)
        with os_errors_named(path):
            self._spool = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115 - closed by __exit__
        # Shard -> position of its rows in the spool; None if it is left out.
        self._waiting: dict[int, int | None] = {}
        self._next = 0

    def add(self, number: int, rows: SampleRows | None) -> None:
        """Add the rows of a shard; None for a shard that is left out.

        ``number``: of the shard. Numbers start at 0, have no gaps, and are each passed once, in any
        order.

        Raises CannotIndex if a key occurs twice, OSError if the disk is full.
        """
        if number != self._next:
            self._keep(number, rows)
            return
        if rows is not None:
            self._insert(number, rows.file)
        self._next += 1
        while self._next in self._waiting:
            position = self._waiting.pop(self._next)
            if position is not None:
                self._spool.seek(position)
                self._insert(self._next, self._spool)
            self._next += 1

    def _keep(self, number: int, rows: SampleRows | None) -> None:
        """Keep the rows of a shard until those before it are inserted."""
        if rows is None:
            self._waiting[number] = None
            return
        with os_errors_named(self._path):
            self._waiting[number] = self._spool.seek(0, os.SEEK_END)
            shutil.copyfileobj(rows.file, self._spool)
            self._spool.flush()

    def _insert(self, number: int, file: BinaryIO) -> None:
        for chunk in chunks_of(file):
            samples = ((number, *row) for row in chunk.samples)
            parts = ((number, *row) for row in chunk.parts)
            try:
                self._run("INSERT INTO samples VALUES (?, ?, ?, ?, ?)", samples)
                self._run("INSERT INTO sample_parts VALUES (?, ?, ?, ?, ?)", parts)
            except sqlite3.IntegrityError:
                key = self._repeated_key(chunk)
                raise CannotIndex(f"Energon takes no key twice: {key}") from None
            except UnicodeEncodeError:
                raise CannotIndex("a name is not UTF-8") from None

    def commit(self, order: Sequence[int]) -> None:
        """Number the shards by their position in ``order``, and rename the file. Raises OSError."""
        for position, number in enumerate(order):
            if position != number:
                for table in ("samples", "sample_parts"):
                    self._run(
                        f"UPDATE {table} SET tar_file_id = ? WHERE tar_file_id = ?",
                        [(position, number)],
                    )
        with _full_disk(self._path):
            self._connection.execute("COMMIT")
            self._connection.executescript(_INDEXES)
            self._connection.close()
        with os_errors_named(self._path):
            os.fsync(self._file)
            os.replace(self._name, self._path)
        sync_folder(self._path.parent)

    def __enter__(self) -> "EnergonDatabase":  # noqa: PYI034 - Self needs Python 3.11
        try:
            with _full_disk(self._path):
                # It is not read before it is complete: a journal would only cost time.
                self._connection.executescript(
                    f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; {_TABLES} BEGIN;"
                )
        except OSError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()
        # Of unwritten data, on a full disk.
        with suppress(OSError):
            self._spool.close()
        discard_temporary(self._name, self._file)
        with suppress(OSError):
            # If it is empty.
            self._path.parent.rmdir()

    def _run(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        with _full_disk(self._path):
            self._connection.executemany(statement, rows)

    def _repeated_key(self, chunk: RowChunk) -> str:
        """Return the first key of a chunk that the database already has.

        Some rows of the chunk may have been inserted.
        """
        seen: set[str] = set()
        for key, sample, _, _ in chunk.samples:
            if key in seen:
                return key
            seen.add(key)
            inserted = self._connection.execute(
                "SELECT tar_file_id, sample_index FROM samples WHERE sample_key = ?", (key,)
            ).fetchone()
            if inserted is not None and inserted != (self._next, sample):
                return key
        return ""


@contextmanager
def _full_disk(path: Path) -> Iterator[None]:
    """Convert sqlite's error for a failing disk to an OSError with the name of the file."""
    try:
        yield
    except sqlite3.OperationalError as error:
        number = errno.ENOSPC if "full" in str(error) else errno.EIO
        raise OSError(number, str(error), str(path)) from error
