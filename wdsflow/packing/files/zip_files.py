"""Files in a zip."""

import errno
import posixpath
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from wdsflow.shards.source.base import SourceError

from ..unusable import MISSING, UNREADABLE, Unusable
from .media_files import FIRST, FileRef, Opened, Read, Rest, path_of, size_of
from .safe_paths import path_below

# Methods of compression raise errors of their own, or an OSError without a number.
_OF_DATA = (None, errno.EINVAL)
_DECOMPRESSORS = ("zlib", "_lzma", "lzma", "bz2")


class ZipFiles:
    """Files in a zip, by their names without ``./`` and the like."""

    has_sizes = True
    travels = False

    def __init__(self, path: str) -> None:
        self.root = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile, ValueError) as error:
            raise SourceError("io", f"{path} is not a zip: {error}") from None
        self._entries: dict[str, zipfile.ZipInfo] = {}
        self.passed_over: Counter[str] = Counter()
        for info in self._zip.infolist():
            if info.is_dir():
                continue
            path = posixpath.normpath(info.filename)
            if path in self._entries:
                self.passed_over["second file of the same name"] += 1
            # Of two entries, the one of exactly that name; of several, the last, as zipfile has it.
            if path == info.filename or self._is_free(path):
                self._entries[path] = info

    def _is_free(self, path: str) -> bool:
        return path not in self._entries or self._entries[path].filename != path

    def name_of(self, ref: FileRef) -> str:
        """Return the name of a file in the zip."""
        return path_of(ref)

    def names(self) -> Iterator[str]:
        """Yield the names of all files."""
        return iter(self._entries)

    def close(self) -> None:
        """Close the zip."""
        self._zip.close()

    def find(self, name: str) -> FileRef:
        """Return the name, size and checksum of a file. Raises Unusable."""
        path = path_below(name, self.root)
        info = self._entries.get(path)
        if info is None:
            raise Unusable(MISSING, f"{name!r:.200}")
        if info.flag_bits & 1:
            raise Unusable(UNREADABLE, f"{name!r:.200} is encrypted")
        return [path, info.file_size, info.CRC]

    def open(self, ref: FileRef, most: int) -> Opened:
        """Unpack a file to check its checksum, and keep its first bytes.

        Raises Unusable, SourceError.
        """
        size = size_of(ref)
        try:
            with self._zip.open(self._entries[path_of(ref)]) as file:
                first = file.read(most)
                length = len(first)
                while data := file.read(FIRST):
                    length += len(data)
        except (zipfile.BadZipFile, EOFError, RuntimeError, ValueError) as error:
            raise Unusable(UNREADABLE, str(error)) from None
        except OSError as error:
            if error.errno in _OF_DATA:
                raise Unusable(UNREADABLE, str(error)) from None
            raise SourceError("io", f"{self.root} cannot be read: {error.strerror}") from None
        except Exception as error:
            if type(error).__module__ not in _DECOMPRESSORS:
                raise
            raise Unusable(UNREADABLE, str(error)) from None
        if length != size:
            raise Unusable(UNREADABLE, f"it has {length:,} bytes instead of {size:,}")
        if len(first) == size:
            return Opened(size, first)
        return Opened(
            size,
            first,
            Rest(partial(self._open_at, ref, len(first)), size - len(first), path_of(ref)),
        )

    @contextmanager
    def _open_at(self, ref: FileRef, start: int) -> Iterator[Read]:
        """Unpack a file again, from an offset on. Raises SourceError."""
        try:
            with self._zip.open(self._entries[path_of(ref)]) as file:
                file.seek(start)
                yield file.read
        except OSError as error:
            raise SourceError("io", f"{self.root} cannot be read: {error}") from None
