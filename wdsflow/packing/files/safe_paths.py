"""File names that stay below a root without links, and OS errors caused by a name."""

import errno
import posixpath
import re

from ..unusable import NO_PATH, OUTSIDE, Unusable

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# All others, such as too many open files or a disk that fails, are not the fault of the row: they
# end the run.
ROW_FAULTS = frozenset(
    (
        errno.EACCES,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        # A name that the file system cannot have.
        errno.EILSEQ,
    )
)


def check_file_name(name: str) -> None:
    """Raise Unusable if a name is empty, or has a NUL."""
    if not name or "\0" in name:
        raise Unusable(NO_PATH, "it is empty" if not name else f"{name!r:.200} has a NUL")


def path_below(name: str, root: str) -> str:
    """Return the path of a name below a root that has no links. Raises Unusable.

    >>> path_below("./a/../b.jpg", "images.zip")
    'b.jpg'
    """
    check_file_name(name)
    path = posixpath.normpath(name)
    if path == ".." or path.startswith(("/", "../")):
        raise Unusable(OUTSIDE, f"{name!r:.200} is not in {root}")
    return path
