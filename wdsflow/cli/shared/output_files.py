"""Files that a command writes: checked before any work, and written atomically.

Also the messages if that fails.
"""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from wdsflow.shards.atomic import create_temporary, discard_temporary, os_errors_named, write_file
from wdsflow.text.shell import quote_path

from .refuse import WRONG_USE, refuse
from .typed import Typed, unused_path

# Errors of a disk that has no space, or is read-only.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
# Errors of a path that cannot be written, although others can.
_MISPLACED = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOTDIR,
        errno.EEXIST,
        errno.EISDIR,
        errno.ENAMETOOLONG,
    }
)


def check_output(path: Path | None, name: str, typed: Typed) -> None:
    """Refuse a file that could not be written, before any work.

    ``name`` is that of the parameter.
    """
    if path is None:
        return
    elsewhere = f"elsewhere: {typed.command_with(**{name: unused_path(path)})}"
    if path.is_dir():
        refuse(f"{path} is a folder", elsewhere)
    if path.parent.is_file():
        refuse(f"{path.parent} is a file, not a folder", elsewhere)
    if not path.parent.is_dir():
        refuse(
            f"the folder {path.parent} does not exist", f"mkdir -p {quote_path(str(path.parent))}"
        )
    if not is_device(path):
        with _refused_if_unwritable(elsewhere):
            discard_temporary(*create_temporary(path))


def write_output(path: Path, text: str) -> None:
    """Write a file atomically: if the run dies, the old file stays unchanged."""
    data = text.encode("utf-8", "backslashreplace")
    with _refused_if_unwritable("free space there, or name another file"), os_errors_named(path):
        if is_device(path):
            path.write_bytes(data)
        else:
            write_file(path, data)


def is_device(path: Path) -> bool:
    """Return whether a path is a pipe or a device.

    /dev/stdout always is; files in /dev/shm are not.
    """
    in_dev = path.is_relative_to("/dev") and not path.is_relative_to("/dev/shm")  # noqa: S108
    return path.exists() and (in_dev or not path.is_file())


def is_misplaced(error: OSError, out: Path) -> bool:
    """Return whether a file, or an output folder, could be written elsewhere.

    /proc reports a new file as missing.
    """
    if error.errno in _MISPLACED:
        return True
    return error.errno == errno.ENOENT and not out.exists()


def refuse_write(error: OSError, hint: str) -> NoReturn:
    """Report the file that cannot be written, and why; exit with status 2."""
    path = f" {error.filename}" if error.filename else ""
    refuse(f"cannot write{path}: {error.strerror or error}", hint)


@contextlib.contextmanager
def full_disk(hint: str) -> Iterator[None]:
    """Exit with status 2 if a disk has no space for a file, and report the file."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        try:
            refuse_write(error, hint)
        finally:
            if int(os.environ.get("WORLD_SIZE") or 1) > 1:
                sys.stderr.flush()
                # A process group whose other ranks have ended may hang at shutdown.
                os._exit(WRONG_USE)


@contextlib.contextmanager
def _refused_if_unwritable(hint: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        # The output was closed: the file is not at fault.
        raise
    except OSError as error:
        refuse_write(error, hint)
