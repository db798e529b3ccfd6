"""The largest cost of a batch: planned, learned, probed, and kept from run to run."""

import contextlib
import hashlib
import json
import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from wdsflow.memory.sizes import format_size

from .attempt import Device, describe, drop_frames, is_out_of_memory, requested_bytes

_FIRST_WAIT, _LONGEST_WAIT = 64, 4096  # batches before a cost that did not fit is doubted


class Known(NamedTuple):
    """What a ceiling knows: the bound in force, the largest cost that worked, the smallest that did not."""

    limit: int | None = None
    worked: int = 0
    failed: int | None = None


class Ceiling:
    """The bound on the cost of a batch, moved by experience.

    ``limit`` is None as long as nothing bounds it. A batch that does not fit lowers it by three tenths, or to the largest
    cost that worked. ``patience`` clean batches in a row that it cut short raise it by a quarter, at most half of the way
    to the known bad cost; as long as none is known, each doubles it. Where good and bad have met, the bad one is doubted
    after 64 clean batches and counted a tenth higher, as somebody else may have left the device; each time that this was
    wrong it waits twice as long. ``most`` is never passed, such as where passing it would end the process.
    """

    def __init__(self, known: Known | None = None, *, most: int | None = None, patience: int = 8) -> None:
        self.known = known or Known()
        self.most = most
        self.patience = patience
        self._clean = 0  # batches that the limit cut short since it last moved
        self._wait = _FIRST_WAIT
        self._doubted = 0  # times in a row without a failure
        if most is not None and (self.limit is None or self.limit > most):
            self.known = self.known._replace(limit=most)

    @property
    def limit(self) -> int | None:
        """The largest cost that a batch of several items may have now."""
        return self.known.limit

    def good(self, cost: int, *, limited: bool) -> None:
        """Note that a batch worked; ``limited``: it would have had more items but for the limit."""
        limit, worked, failed = self.known
        if failed is not None and cost >= failed:
            return  # one large item, which says little about many small ones
        self.known = Known(limit, max(worked, cost), failed)
        if limited:
            self._clean += 1
            self._grow()

    def bad(self, cost: int) -> None:
        """Note that a batch of several items did not fit."""
        failed = min(cost, self.known.failed or cost)
        worked = self.known.worked if self.known.worked < failed else 0
        if self._doubted:
            self._wait = min(self._wait * 2, _LONGEST_WAIT)
        self.known = Known(max(1, min(failed - 1, max(worked, cost * 7 // 10))), worked, failed)
        self._clean = self._doubted = 0

    def restore(self, before: Known) -> None:
        """Take back what batches taught that failed for one item in them, but keep what worked since."""
        if before.failed is None or self.known.worked < before.failed:
            before = before._replace(worked=max(before.worked, self.known.worked))
        self.known = before
        self._clean = 0

    def _grow(self) -> None:
        limit, worked, failed = self.known
        if limit is None or (self.most is not None and limit >= self.most):
            return
        if failed is None:
            self._raise(limit * 2)
        elif failed - limit > max(1, failed // 20):
            if self._clean >= self.patience:
                self._raise(min(limit * 5 // 4 + 1, (limit + failed + 1) // 2))
        elif self._clean >= self._wait:
            self._clean, self._doubted = 0, self._doubted + 1
            if self._doubted > 1:
                self._wait = max(_FIRST_WAIT, self._wait // 2)
            self.known = Known(limit, worked, failed * 11 // 10 + 1)

    def _raise(self, limit: int) -> None:
        self._clean = 0
        self.known = self.known._replace(limit=limit if self.most is None else min(limit, self.most))


Stop = Literal["ceiling", "most", "waste", "end"]


class BatchCut(NamedTuple):
    """How many items a batch takes, and what keeps it from taking more."""

    items: int
    stop: Stop


class Padding(NamedTuple):
    """The cells that batches compute: pixels, tokens."""

    padded: int
    real: int

    @property
    def ratio(self) -> float:
        """Padded cells for each real one; 1 where there are none."""
        return self.padded / self.real if self.real else 1.0


def order(costs: Sequence[int]) -> list[int]:
    """Return positions by falling cost, equal ones in input order.

    The largest first: what does not fit is known at once, and later batches fit in the memory that it took.
    """
    return sorted(range(len(costs)), key=lambda index: (-costs[index], index))


def cut(costs: Sequence[int], ceiling: int | None, most: int, waste: float | None) -> BatchCut:
    """Return how many of the first items make the next batch; ``costs`` are falling, at least 1, and not empty.

    It takes items while they and their padding cost at most ``ceiling``, they are at most ``most``, and all cells are at
    most ``waste`` times the real ones. One item is always taken.
    """
    real = 0
    for index, cost in enumerate(costs):
        padded, real = (index + 1) * costs[0], real + cost
        if index == 0:
            continue
        if index >= most:
            return BatchCut(index, "most")
        if ceiling is not None and padded > ceiling:
            return BatchCut(index, "ceiling")
        if waste is not None and padded > waste * real:
            return BatchCut(index, "waste")
    return BatchCut(len(costs), "end")


def batches(costs: Sequence[int], ceiling: int | None, most: int, waste: float | None) -> list[list[int]]:
    """Return the positions of each batch for a ceiling that does not change."""
    rest, made = order(costs), []
    while rest:
        taken = cut([costs[index] for index in rest[: most + 1]], ceiling, most, waste).items
        made.append(rest[:taken])
        rest = rest[taken:]
    return made


def halve(costs: Sequence[int]) -> int:
    """Return where to split a batch of at least two items, of falling costs, so that both parts cost about the same."""
    size = len(costs)
    return min(range(1, size), key=lambda at: max(at * costs[0], (size - at) * costs[at]))


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
