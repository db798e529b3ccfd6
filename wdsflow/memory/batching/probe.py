"""Tries the largest item there can be before the first shard, and says what it takes."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from wdsflow.memory.sizes import format_size

from .attempt import Device
from .oom import describe, drop_frames, is_out_of_memory, requested_bytes


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
