"""Files that are written whole, or not at all."""

import errno
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:
    # No Unix: a temporary file is then never taken for that of a dead run.
    fcntl = None  # type: ignore[assignment]

_TEMPORARY = re.compile(r".*\.[0-9a-f]{8}\.wdsflow\.tmp", re.DOTALL)
# Errors that may be of a source that is read while a file is written.
UNREADABLE = frozenset((errno.EIO, errno.ESTALE, errno.ETIMEDOUT))


@contextmanager
def os_errors_named(path: Path) -> Iterator[None]:
    """Replace the file name in an OSError of the block by ``path``.

    The system names a temporary file, or none.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.errno in UNREADABLE:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def atomic_file(path: Path, *, hidden: bool = False) -> Iterator[int]:
    """Yield the descriptor of a file that gets its name only when complete and on disk.

    It gets its name when the block ends.

    After an error of the block there is no file, or the earlier one. ``hidden``: the temporary name
    begins with a dot. Raises OSError, which names ``path``.
    """
    with _replacing(path, hidden=hidden) as (_, file):
        yield file


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield the temporary name of a file; otherwise like ``writing``.

    For a library that opens files itself.
    """
    with _replacing(path, hidden=False) as (name, _):
        yield name


@contextmanager
def _replacing(path: Path, *, hidden: bool) -> Iterator[tuple[Path, int]]:
    name, file = create_temporary(path.with_name(f".{path.name}") if hidden else path)
    try:
        with os_errors_named(path):
            yield name, file
            os.fsync(file)
            os.replace(name, path)
    finally:
        discard_temporary(name, file)
    sync_folder(path.parent)


def create_temporary(path: Path) -> tuple[Path, int]:
    """Create a temporary file next to ``path`` and return its name and descriptor.

    The file is locked as long as it is open.

    Raises OSError, which names ``path``.
    """
    name = path.with_name(f"{path.name[:200]}.{os.urandom(4).hex()}.wdsflow.tmp")
    with os_errors_named(path):
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    _lock(file)
    return name, file


def discard_temporary(name: Path, file: int) -> None:
    """Close and remove a temporary file."""
    os.close(file)
    with suppress(FileNotFoundError):
        os.unlink(name)


def write_file(path: Path, data: bytes) -> None:
    """Write a small file in one step. Raises OSError, which names ``path``."""
    with atomic_file(path) as file, open(file, "wb", closefd=False) as stream:
        stream.write(data)


def write_json_lines(path: Path, items: Iterable[object]) -> None:
    """Write a file atomically, with a line of JSON for each item.

    Raises OSError, which names ``path``.
    """
    write_file(path, b"".join(json.dumps(item).encode() + b"\n" for item in items))


@contextmanager
def scratch_folder(path: Path) -> Iterator[None]:
    """Create an empty folder for the block, and remove it at the end.

    It replaces a folder that a killed run left.
    """
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    try:
        yield
    finally:
        shutil.rmtree(path, ignore_errors=True)


def remove_stale_files(folder: Path) -> int:
    """Remove temporary files of killed runs, and return how many were removed.

    Files of running processes are locked and kept.
    """
    removed = 0
    # May be many: most need no path.
    for name in os.listdir(folder):
        if not _TEMPORARY.fullmatch(name):
            continue
        path = folder / name
        with suppress(OSError):
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                if _lock(file):
                    os.unlink(path)
                    removed += 1
            finally:
                os.close(file)
    return removed


def sync_folder(folder: Path) -> None:
    """Make a rename durable, where the system can sync folders."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _lock(file: int) -> bool:
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
