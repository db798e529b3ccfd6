"""What is installed where this process imports from: versions, and what distributions offer.

To look through 200 distributions takes 0.1 s: what is found is kept for as long as ``sys.path``
stays. A package that was not found is looked for again, as it may be installed while the process
runs; the entry points of one are seen by the next process.
"""

import re
import sys
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

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
    """Return a version. Raises PackageNotFoundError, which is not kept."""
    # Slow to import.
    from importlib.metadata import distribution

    installed = distribution(name)
    # metadata.version parses the whole record as an e-mail: a millisecond each.
    match = _VERSION.search(installed.read_text("METADATA") or "")
    return match[1] if match else installed.version


@lru_cache(maxsize=8)
def _entry_points_of(group: str, path: tuple[str, ...]) -> "tuple[EntryPoint, ...]":
    return tuple(_entry_points(path).select(group=group))


@lru_cache(maxsize=4)
def _entry_points(_path: tuple[str, ...]) -> "EntryPoints":
    # Slow to import.
    from importlib.metadata import entry_points

    return entry_points()  # type: ignore[return-value]
