"""Versions and entry points of the distributions that this process can import.

To look through 200 distributions takes 0.1 s, so answers are kept for as long as ``sys.path`` stays
the same. A version that was not found is looked up again, because the package may have been
installed meanwhile. The entry points of such a package are found by the next process.
"""

import re
import sys
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_VERSION = re.compile(r"^Version: *(\S+)", re.MULTILINE)


def version_of(distribution: str) -> str | None:
    """Return the version of a distribution, None if it is not installed."""
    # Slow to import.
    from importlib.metadata import PackageNotFoundError

    try:
        return _version_of(distribution, tuple(sys.path))
    except PackageNotFoundError:
        return None


def entry_points_of(group: str) -> "tuple[EntryPoint, ...]":
    """Return the entry points of a group, those of all distributions."""
    return _entry_points_of(group, tuple(sys.path))


@lru_cache(maxsize=256)
def _version_of(name: str, _path: tuple[str, ...]) -> str:
    """Return a version. Raises PackageNotFoundError, which the cache does not keep."""
    # Slow to import.
    from importlib.metadata import distribution

    installed = distribution(name)
    # metadata.version parses the whole record as an e-mail: a millisecond each.
    match = _VERSION.search(installed.read_text("METADATA") or "")
    return match[1] if match else installed.version


@lru_cache(maxsize=8)
def _entry_points_of(group: str, _path: tuple[str, ...]) -> "tuple[EntryPoint, ...]":
    # Slow to import.
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))
