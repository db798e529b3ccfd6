"""The files that rows name: below one folder of this machine, in a zip, or in an object store.

``find`` is quick, and refuses names that lead elsewhere. It returns a ``FileRef``, which JSON can hold; ``open`` reads it.
"""

import os
import posixpath
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from wdsflow.shards.source.base import SourceChangedError, SourceError, local_path, read_fully
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.source.remote import filesystem

from .unusable import MISSING, NO_PATH, OUTSIDE, UNREADABLE, Unusable

FIRST = 1 << 20  # bytes of a file that are in memory at once
_MOST_FOLDERS = 10_000  # whose real paths are remembered
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

FileRef = list[str | int]
"""Name, size in bytes, and a mark that changes with the file; of a file in a store the name alone.

Of bytes that were in a cell: the offset in ``StoredBytes``, their size and their hash.
"""


class Rest:
    """The bytes of a file that follow its first ones, exactly so many, in pieces. Closes the file at its end.

    Raises SourceChangedError if there are fewer.
    """

    def __init__(self, read: Callable[[int], bytes], close: Callable[[], object], missing: int, name: str = "") -> None:
        self._read, self._close, self._missing, self._name = read, close, missing, name

    def __iter__(self) -> Iterator[bytes]:
        try:
            while self._missing > 0:
                data = self._read(min(self._missing, FIRST))
                if not data:
                    raise SourceChangedError(f"{self._name} is shorter than it was")
                self._missing -= len(data)
                yield data
        finally:
            self._close()

    def close(self) -> None:
        """Close the file without reading it."""
        self._close()


NO_REST = Rest(lambda _: b"", lambda: None, 0)


class Opened(NamedTuple):
    """A file that is being read: its size in bytes, its first bytes, and all others."""

    size: int
    first: bytes
    rest: Rest = NO_REST


class MediaFiles(Protocol):
    """Where files are."""

    has_sizes: bool
    """Whether ``find`` knows sizes, and that a file exists."""

    def find(self, name: str) -> FileRef:
        """Return the file of a name, which is relative to the root. Raises Unusable."""

    def open(self, ref: FileRef) -> Opened:
        """Open a file. Raises Unusable, SourceError."""

    def name_of(self, ref: FileRef) -> str:
        """Return the name of a file below the root."""

    def names(self) -> Iterator[str]:
        """Yield the names of all files below the root, in any order. Raises SourceError."""

    def close(self) -> None:
        """Close what is open."""


class _OutsideError(Exception):
    """A path that is not below the root, once its links are resolved."""


class LocalFiles:
    """Files below a folder; links may not lead out of it."""

    has_sizes = True

    def __init__(self, root: str) -> None:
        self.root = root
        self._real = os.path.realpath(root)
        self._inside = self._real.rstrip("/") + "/"
        self._folders: dict[str, str] = {}

    def find(self, name: str) -> FileRef:
        """Return the real path of a file, its size, and the time of its last change. Raises Unusable."""
        if not name or "\0" in name:
            raise Unusable(NO_PATH, "it is empty" if not name else f"{name!r:.200} has a NUL")
        if ":" in name and (_URL.match(name) or name.startswith("file:")):
            local = local_path(name)
            if local is None:
                raise Unusable(NO_PATH, f"{name!r:.200} is a url: pack reads files; img2dataset downloads images")
            name = local
        path = name if name.startswith("/") else f"{self._inside}{name}"
        folder, _, base = path.rpartition("/")
        try:
            path = f"{self._folder(folder)}/{base}"
            if base in ("", ".", ".."):
                path = self._checked(path)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                path = self._checked(path)
                status = os.stat(path)
        except _OutsideError:
            where = f"is not in {self.root}; --root names the folder that holds all files"
            raise Unusable(OUTSIDE, f"{name!r:.200} {where}") from None
        except (FileNotFoundError, NotADirectoryError):
            raise Unusable(MISSING, f"{name!r:.200}") from None
        except (OSError, ValueError) as error:
            raise Unusable(MISSING, f"{name!r:.200}: {getattr(error, 'strerror', None) or error}") from None
        if not stat.S_ISREG(status.st_mode):
            kind = "folder" if stat.S_ISDIR(status.st_mode) else "special file"
            raise Unusable(MISSING, f"{name!r:.200} is a {kind}")
        return [path, status.st_size, status.st_mtime_ns]

    def _folder(self, folder: str) -> str:
        """Return the real path of a folder below the root. Raises _OutsideError."""
        known = self._folders.get(folder)
        if known is None:
            if len(self._folders) >= _MOST_FOLDERS:
                self._folders.clear()
            known = self._folders[folder] = self._checked(folder)
        return known

    def _checked(self, path: str) -> str:
        """Return a path with all links resolved. Raises _OutsideError."""
        real = os.path.realpath(path)
        if real != self._real and not real.startswith(self._inside):
            raise _OutsideError(path)
        return real.rstrip("/")

    def open(self, ref: FileRef) -> Opened:
        """Open a file that has not changed since it was found. Raises Unusable, SourceChangedError."""
        path, size, changed = str(ref[0]), int(ref[1]), int(ref[2])
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                status = os.fstat(file)
                if status.st_size != size or status.st_mtime_ns != changed:
                    raise SourceChangedError(f"{path}: pack it again")
                # One byte more shows whether it has grown.
                first = os.read(file, min(size, FIRST) + 1)
                if len(first) == size:
                    return Opened(size, first)
                if len(first) > size or size <= FIRST:
                    raise SourceChangedError(f"{path}: pack it again")
                reader = os.fdopen(file, "rb", buffering=0)
                file = -1
                return Opened(size, first, Rest(reader.read, reader.close, size - len(first), path))
            finally:
                if file >= 0:
                    os.close(file)
        except SourceError:
            raise
        except OSError as error:
            raise Unusable(UNREADABLE, str(error.strerror)) from None

    def name_of(self, ref: FileRef) -> str:
        """Return the path of a file below the root."""
        return str(ref[0]).removeprefix(self._inside)

    def names(self) -> Iterator[str]:
        """Yield the names of all files; links to folders are not followed."""
        for folder, _, names in os.walk(self._real):
            below = os.path.relpath(folder, self._real)
            for name in names:
                yield name if below == "." else f"{below}/{name}"

    def close(self) -> None:
        """Nothing is open."""


class ZipFiles:
    """Files in a zip."""

    has_sizes = True

    def __init__(self, path: str) -> None:
        self.root = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile, ValueError) as error:
            raise SourceError("io", f"{path} is not a zip: {error}") from None

    def name_of(self, ref: FileRef) -> str:
        """Return the name of a file in the zip."""
        return str(ref[0])

    def names(self) -> Iterator[str]:
        """Yield the names of all files."""
        return (info.filename for info in self._zip.infolist() if not info.is_dir())

    def close(self) -> None:
        """Close the zip."""
        self._zip.close()

    def find(self, name: str) -> FileRef:
        """Return the name, size and checksum of a file. Raises Unusable."""
        inside = _below("", name, self.root)
        try:
            info = self._zip.getinfo(inside)
        except KeyError:
            raise Unusable(MISSING, f"{name!r:.200}") from None
        if info.flag_bits & 1:
            raise Unusable(UNREADABLE, f"{name!r:.200} is encrypted")
        return [inside, info.file_size, info.CRC]

    def open(self, ref: FileRef) -> Opened:
        """Unpack a file; a large one is unpacked twice, so that its checksum is known before. Raises Unusable."""
        name, size = str(ref[0]), int(ref[1])
        try:
            with self._zip.open(name) as file:
                first = file.read(FIRST + 1)
                while len(first) > FIRST and file.read(FIRST):
                    pass
            if len(first) <= FIRST:
                return Opened(len(first), first)
            reader = self._zip.open(name)
            return Opened(size, reader.read(FIRST), Rest(reader.read, reader.close, size - FIRST, name))
        except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, NotImplementedError, ValueError) as error:
            raise Unusable(UNREADABLE, str(error)) from None
        except Exception as error:
            # Each method of compression raises an error of its own.
            if type(error).__module__ not in ("zlib", "_lzma", "lzma", "bz2"):
                raise
            raise Unusable(UNREADABLE, str(error)) from None


class RemoteFiles:
    """Files below a url. That they exist is known when they are opened."""

    has_sizes = False

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")

    def find(self, name: str) -> FileRef:
        """Return the url of a file. Raises Unusable."""
        if name.startswith(f"{self.root}/"):
            name = name[len(self.root) + 1 :]
        elif _URL.match(name):
            raise Unusable(
                OUTSIDE, f"{name!r:.200} is not in {self.root}; --root names the folder that holds all files"
            )
        return [_below(self.root + "/", name, self.root)]

    def open(self, ref: FileRef) -> Opened:
        """Open a file. Raises Unusable if there is none, SourceError if the store fails."""
        url = str(ref[0])
        try:
            source = open_source(url)
        except SourceError as error:
            if error.kind not in ("missing", "denied"):
                raise
            raise Unusable(MISSING if error.kind == "missing" else UNREADABLE, error.detail) from None
        size = source.length
        if size is None:
            source.close()
            raise Unusable(UNREADABLE, "the server does not say how long it is")
        try:
            first = source.read_at(0, FIRST)
        except BaseException:
            source.close()
            raise
        if len(first) == size:
            source.close()
            return Opened(size, first)
        at = len(first)

        def read(most: int) -> bytes:
            nonlocal at
            data = source.read_at(at, most)
            at += len(data)
            return data

        return Opened(size, first, Rest(read, source.close, size - at, url))

    def name_of(self, ref: FileRef) -> str:
        """Return the path of a file below the root."""
        return str(ref[0]).removeprefix(f"{self.root}/")

    def names(self) -> Iterator[str]:
        """Yield the names of all files. Raises SourceError."""
        system, path = filesystem(self.root)
        try:
            paths: list[str] = system.find(path)
        except Exception as error:  # noqa: BLE001 - every file system raises its own
            raise SourceError("io", f"{self.root} cannot be listed: {error}") from None
        return (name[len(path.rstrip("/")) + 1 :] for name in paths)

    def close(self) -> None:
        """Nothing is open."""


class StoredBytes:
    """The bytes of images that were in cells of a table, in a file of the run."""

    def __init__(self, path: Path) -> None:
        self._path, self._size, self._file = path, 0, -1
        self._writing: IO[bytes] | None = None

    def add(self, data: bytes) -> FileRef:
        """Append bytes. Raises OSError."""
        from xxhash import xxh3_64_hexdigest

        if self._writing is None:
            self._writing = open(self._path, "wb", buffering=FIRST)  # noqa: SIM115 - closed by flush
        self._writing.write(data)
        self._size += len(data)
        return [self._size - len(data), len(data), xxh3_64_hexdigest(data)]

    def flush(self) -> None:
        """Prepare for reading; nothing is added after this. Raises OSError."""
        if self._writing is not None:
            self._writing.close()
            self._writing = None
            self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)

    def open(self, ref: FileRef) -> Opened:
        """Read bytes from an offset. Raises OSError."""
        start, size = int(ref[0]), int(ref[1])
        first = read_fully(self._file, min(size, FIRST), start)
        at = start + len(first)

        def read(most: int) -> bytes:
            nonlocal at
            data = os.pread(self._file, most, at)
            at += len(data)
            return data

        return Opened(size, first, Rest(read, lambda: None, size - len(first), str(self._path)))

    def close(self) -> None:
        """Close the file."""
        self.flush()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _below(root: str, name: str, shown: str) -> str:
    """Return the path of a name below a root that has no links. Raises Unusable."""
    if not name or "\0" in name:
        raise Unusable(NO_PATH, "it is empty" if not name else f"{name!r:.200} has a NUL")
    path = posixpath.normpath(name)
    if path == ".." or path.startswith(("/", "../")):
        raise Unusable(OUTSIDE, f"{name!r:.200} is not in {shown}")
    return root + path
