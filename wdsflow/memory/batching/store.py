"""Ceilings kept from run to run, in the user's cache."""

import contextlib
import hashlib
import json
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .ceiling import Ceiling, Known

_FORMAT = 1
_LARGEST_FILE = 1 << 20
_LARGEST_COST = 1 << 62


def cache_folder() -> Path | None:
    """Return the folder of ceilings in the user's cache (XDG, or Library/Caches on macOS); None without a home."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        if given and Path(given).is_absolute():  # a relative one is to be ignored, says the specification
            base = Path(given)
        else:
            base = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    except RuntimeError:
        return None
    return base / "wdsflow" / "ceilings"


class CeilingStore:
    """A folder with a small JSON file for each key. Nothing about it fails a run: it only saves time.

    A key is all that decides what fits: the model's kind and settings, dtype, the device's name and memory, versions.
    Each file is replaced in one step; of processes that write at once, the last one stays.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder()

    def path(self, key: Mapping[str, Any]) -> Path | None:
        """Return the file of a key; None if there is no cache."""
        name = hashlib.sha256(_plain(key).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self.folder / f"{name}.json" if self.folder else None

    def load(self, key: Mapping[str, Any], *, most: int | None = None) -> Ceiling:
        """Return the ceiling that was saved; one that knows nothing where there is none, or none that makes sense."""
        return Ceiling(self._read(key), most=most)

    def save(self, key: Mapping[str, Any], ceiling: Ceiling) -> bool:
        """Write what a ceiling knows; False if that cannot be done."""
        path = self.path(key)
        if path is None:
            return False
        text = json.dumps({"format": _FORMAT, "key": json.loads(_plain(key)), **ceiling.known._asdict()}, indent=1)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(text + "\n", encoding="ascii")
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            return False
        return True

    def _read(self, key: Mapping[str, Any]) -> Known | None:
        path = self.path(key)
        try:
            if path is None or path.stat().st_size > _LARGEST_FILE or not path.is_file():
                return None
            found = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(found, dict) or found.get("format") != _FORMAT:
            return None
        limit, worked, failed = found.get("limit"), found.get("worked"), found.get("failed")
        if not (_is_cost(limit, 1) and _is_cost(worked, 0) and _is_cost(failed, 2)) or worked is None:
            return None
        if failed is not None and (limit is None or limit >= failed or worked >= failed):
            return None
        return Known(limit, worked, failed)


def _is_cost(value: Any, least: int) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and least <= value < _LARGEST_COST)


def _plain(key: Mapping[str, Any]) -> str:
    return json.dumps(key, sort_keys=True, default=str)
