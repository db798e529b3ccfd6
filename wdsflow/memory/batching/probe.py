"""A probe of the memory of one item of the largest cost."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..sizes import format_size
from .device import MeasuredDevice
from .exceptions import describe, drop_frames
from .memory_errors import is_out_of_memory, requested_bytes


@dataclass(frozen=True)
class Probe:
    """The memory of a single item of the largest cost.

    ``peak_growth``: the peak in bytes above the start; if it does not fit, with the last request,
    so it needs at least as many. ``memory``: bytes of the device by name, after all was freed.
    """

    fits: bool
    cost: int
    peak_growth: int
    memory: Mapping[str, int]
    detail: str = ""

    @property
    def free(self) -> int | None:
        """Bytes that this process could still get; None if it is not known."""
        return self.memory.get("available", self.memory.get("free"))

    def cost_within(self, budget: int) -> int | None:
        """Return the cost of a batch that about fills a budget in bytes.

        None if the tried item took no memory.
        """
        return max(self.cost, self.cost * budget // self.peak_growth) if self.peak_growth else None

    def message(self, model: str) -> str:
        """Return one sentence for users."""
        item = f"{model}: one item of the largest size, {self.cost:,} pixels or tokens,"
        free = "an unknown number of bytes is"
        if self.free is not None:
            free = f"{format_size(self.free)} are"
        cap = ""
        if "cap" in self.memory:
            cap = f" under the cap of {format_size(self.memory['cap'])}"
        if self.fits:
            return f"{item} takes {format_size(self.peak_growth)}; {free} free{cap}"
        return f"{item} does not fit: it needs at least {format_size(self.peak_growth)}, {free} free{cap} ({self.detail})"


def probe(
    run: Callable[[Sequence[Any]], Sequence[Any]], item: Any, cost: int, device: MeasuredDevice
) -> Probe:
    """Run one item, twice if the first time it does not fit, and return the measurement.

    Other exceptions of ``run`` pass through: a model that cannot run its own largest item cannot
    run.
    """
    took = 0
    detail = ""
    for _ in range(2):
        device.release()
        device.start_measuring()
        error = _memory_error(run, item)
        if error is None:
            return Probe(
                fits=True, cost=cost, peak_growth=device.peak_growth(), memory=_memory_after(device)
            )
        requested = requested_bytes(error) or 0
        took = max(took, device.peak_growth() + requested)
        detail = error
    return Probe(
        fits=False, cost=cost, peak_growth=took, memory=_memory_after(device), detail=detail
    )


def _memory_error(run: Callable[[Sequence[Any]], Sequence[Any]], item: Any) -> str | None:
    """Run an item, and return the error if memory was too short; None if it worked."""
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


def _memory_after(device: MeasuredDevice) -> Mapping[str, int]:
    device.release()
    return dict(device.memory())
