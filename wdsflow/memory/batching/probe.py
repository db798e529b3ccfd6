"""What is known before the first batch: the ceilings of earlier runs, and a probe of the largest item."""

import contextlib
import hashlib
import json
import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from wdsflow.memory.sizes import format_size

from .attempt import Device, describe, drop_frames, is_out_of_memory, requested_bytes
from .runner import Ceiling, Known

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


class MeasuredDevice(Device, Protocol):
    """A device that also tells what a run took."""

    def begin(self) -> None:
        """Let ``took`` count from here."""

    def took(self) -> int:
        """Return the most bytes since ``begin`` beyond those that were there then."""


@dataclass(frozen=True)
class Probe:
    """What a single item of the largest cost takes.

    ``took``: bytes at the most, beyond what was there before; where it does not fit, with those that were asked for last,
    so it needs at least as many. ``memory``: bytes of the device by name, after all was freed.
    """

    fits: bool
    cost: int
    took: int
    memory: Mapping[str, int]
    detail: str = ""

    @property
    def free(self) -> int | None:
        """Bytes that this process could still get; None if it is not known."""
        return self.memory.get("available", self.memory.get("free"))

    def ceiling(self, budget: int) -> int | None:
        """Return the cost of the batch that about fills a budget in bytes; None if too little was taken to tell."""
        return max(self.cost, self.cost * budget // self.took) if self.took else None

    def message(self, model: str) -> str:
        """Return one sentence for people."""
        what = f"{model}: one item of the largest size, {self.cost:,} pixels or tokens,"
        free = "an unknown number of bytes is" if self.free is None else f"{format_size(self.free)} are"
        cap = f" under the cap of {format_size(self.memory['cap'])}" if "cap" in self.memory else ""
        if self.fits:
            return f"{what} takes {format_size(self.took)}; {free} free{cap}"
        return f"{what} does not fit: it needs at least {format_size(self.took)}, {free} free{cap} ({self.detail})"


def probe(run: Callable[[Sequence[Any]], Sequence[Any]], item: Any, cost: int, device: MeasuredDevice) -> Probe:
    """Run one item, twice if the first time it does not fit, and return what was seen.

    Raises what ``run`` raises that is not about memory: a model that cannot run its own largest item cannot run.
    """
    took, detail = 0, ""
    for _ in range(2):
        device.release()
        device.begin()
        error = _error_of(run, item)
        took = max(took, device.took() + (requested_bytes(error) or 0 if error else 0))
        if error is None:
            return Probe(fits=True, cost=cost, took=device.took(), memory=_after(device))
        detail = error
    return Probe(fits=False, cost=cost, took=took, memory=_after(device), detail=detail)


def _error_of(run: Callable[[Sequence[Any]], Sequence[Any]], item: Any) -> str | None:
    outside = sys.exc_info()[1]
    try:
        run([item])
    except Exception as error:
        if not is_out_of_memory(error, outside):
            raise
        text = describe(error)
        drop_frames(error, outside)
        return text
    return None


def _after(device: MeasuredDevice) -> Mapping[str, int]:
    device.release()
    return dict(device.memory())
