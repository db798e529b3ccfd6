"""Files below a folder of this machine."""

import os
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from wdsflow.shards.source.base import SourceChangedError, SourceError, local_path

from ..unusable import MISSING, NO_PATH, OUTSIDE, UNREADABLE, Unusable
from .media_files import FileRef, Opened, Read, Rest, change_mark_of, path_of, size_of
from .safe_paths import ROW_FAULTS, URL, check_file_name

# Whose real paths are remembered.
_MOST_FOLDERS = 10_000
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class _OutsideError(Exception):
    """A path that is not below the root, once its links are resolved."""


class LocalFiles:
    """Files below a folder; links may not lead out of it."""

    has_sizes = True
    travels = True

    def __init__(self, root: str) -> None:
        self.root = root
        self._real = os.path.realpath(root)
        self._inside = self._real.rstrip("/") + "/"
        self._folders: dict[str, str] = {}
        self.passed_over: Counter[str] = Counter()

    def __reduce__(self) -> tuple[type["LocalFiles"], tuple[str]]:
        return LocalFiles, (self.root,)

    def find(self, name: str) -> FileRef:
        """Return the real path, size and modification time of a file.

        Raises Unusable, SourceError.
        """
        check_file_name(name)
        if ":" in name and (URL.match(name) or name.startswith("file:")):
            local = local_path(name)
            if local is None:
                raise Unusable(
                    NO_PATH,
                    f"{name!r:.200} is a url: pack reads files; img2dataset downloads images",
                )
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
        except OSError as error:
            raise _exception_for(error, MISSING, path, f"{name!r:.200}: ") from None
        except ValueError as error:
            raise Unusable(MISSING, f"{name!r:.200}: {error}") from None
        if not stat.S_ISREG(status.st_mode):
            kind = "folder" if stat.S_ISDIR(status.st_mode) else "special file"
            raise Unusable(MISSING, f"{name!r:.200} is a {kind}")
        return [path, status.st_size, status.st_mtime_ns]

    def _folder(self, folder: str) -> str:
        """Return the real path of a folder below the root. Raises _OutsideError."""
        real = self._folders.get(folder)
        if real is None:
            if len(self._folders) >= _MOST_FOLDERS:
                self._folders.clear()
            real = self._checked(folder)
            self._folders[folder] = real
        return real

    def _checked(self, path: str) -> str:
        """Return a path with all links resolved. Raises _OutsideError."""
        real = os.path.realpath(path)
        if real != self._real and not real.startswith(self._inside):
            raise _OutsideError(path)
        return real.rstrip("/")

    def open(self, ref: FileRef, most: int) -> Opened:
        """Read the first bytes of a file that has not changed since ``find``.

        Raises Unusable, SourceError.
        """
        path, size = path_of(ref), size_of(ref)
        try:
            file = os.open(path, _FLAGS)
            try:
                _refuse_changed(file, ref)
                # One byte more shows whether it has grown.
                first = os.read(file, min(size, most) + 1)
            finally:
                os.close(file)
        except SourceError:
            raise
        except OSError as error:
            raise _exception_for(error, UNREADABLE, path) from None
        if len(first) == size:
            return Opened(size, first)
        if len(first) > size or size <= most:
            raise SourceChangedError(f"{path}: pack it again")
        return Opened(
            size, first, Rest(partial(_open_at, ref, len(first)), size - len(first), path)
        )

    def name_of(self, ref: FileRef) -> str:
        """Return the path of a file below the root."""
        return path_of(ref).removeprefix(self._inside)

    def names(self) -> Iterator[str]:
        """Yield the names of all files; links to folders are not followed. Raises SourceError."""

        def pass_over(error: OSError) -> None:
            if error.filename == self._real:
                raise SourceError("denied", f"{self.root} cannot be read: {error.strerror}")
            self.passed_over["folder that cannot be read"] += 1

        for folder, folders, names in os.walk(self._real, onerror=pass_over):
            if links := sum(os.path.islink(f"{folder}/{name}") for name in folders):
                self.passed_over["link to a folder"] += links
            below = os.path.relpath(folder, self._real)
            for name in names:
                yield name if below == "." else f"{below}/{name}"

    def close(self) -> None:
        """Nothing is open."""


def _refuse_changed(file: int, ref: FileRef) -> None:
    """Raise SourceChangedError if an open file is not the one that was found, OSError."""
    status = os.fstat(file)
    if status.st_size != size_of(ref) or status.st_mtime_ns != change_mark_of(ref):
        raise SourceChangedError(f"{path_of(ref)}: pack it again")


@contextmanager
def _open_at(ref: FileRef, start: int) -> Iterator[Read]:
    """Open a file, whose first bytes were read, at an offset. Raises SourceError."""
    try:
        file = os.open(path_of(ref), _FLAGS)
        try:
            _refuse_changed(file, ref)
            os.lseek(file, start, os.SEEK_SET)
            yield partial(os.read, file)
        finally:
            os.close(file)
    except SourceError:
        raise
    except OSError as error:
        raise SourceError("io", f"{path_of(ref)} cannot be read: {error.strerror}") from None


def _exception_for(error: OSError, reason: str, path: str, before: str = "") -> Exception:
    """Return the exception for an OSError: Unusable for a row fault, otherwise SourceError.

    After a SourceError the run cannot go on.
    """
    if error.errno in ROW_FAULTS:
        return Unusable(reason, f"{before}{error.strerror}")
    return SourceError("io", f"{path} cannot be read: {error.strerror}")
