"""Measures how fast training would be if data cost nothing.

A few batches are kept and yielded again. Imports torch.

The idea is that of "headspace analysis" in SPDL (Hira et al., 2025), which replaces the loader by a
cache.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import torch

from wdsflow.text.words import how_many

from .epoch.batch_pool import uses_cuda

# Batches that are not counted, at the beginning of each part.
_WARM = 2
# Batches that are given again.
_KEPT = 4
# Share of the time that is not worth a change.
_LITTLE = 0.02
# Share of the time that decoders work when they are the bound.
_BUSY = 0.7


@dataclass(frozen=True)
class Headspace:
    """The result, for one rank.

    ``fed``, ``free``: seconds of a batch with the feed, and without its cost. ``cpu_seconds``: of
    processor time that decoders take for a batch. ``decoders``: how many there are, of ``cores``
    for this rank.
    """

    batches: int
    fed: float
    free: float
    cpu_seconds: float
    decoders: int
    cores: int

    @property
    def wait_share(self) -> float:
        """The share of the time that training waits for data."""
        return max(0.0, 1.0 - self.free / self.fed)

    @property
    def decoders_needed(self) -> int:
        """The decoders that keep up with training."""
        return max(1, math.ceil(self.cpu_seconds / self.free))

    def __str__(self) -> str:
        times = f"{1000 * self.fed:,.3g} ms a batch, {1000 * self.free:,.3g} ms if data cost nothing ({how_many(self.batches, 'batch', 'batches')})"
        if self.wait_share < _LITTLE:
            return f"training waits {self.wait_share:.1%} of the time for data: {times}. The feed is fast enough"
        start = f"training waits {self.wait_share:.0%} of the time for data: {times}. "
        one = f"{self.decoders_needed} core{'s' * (self.decoders_needed != 1)}"
        if self.cpu_seconds < _BUSY * self.fed * self.decoders:
            busy = f"Decoders work {self.cpu_seconds / self.fed / self.decoders:.0%} of the time"
            return f"{start}{busy}: reading the shards, or joining batches in the training process, is the bound"
        if self.decoders_needed > self.cores:
            return f"{start}Decoding is the bound: {one} would keep up, and this rank has {self.cores}; smaller images or less augmentation help"
        return f"{start}Decoding is the bound: {one} would keep up, with decoders={self.decoders_needed} instead of {self.decoders}"


def measure_headspace(
    batches: Iterator[Any],
    count: int,
    cpu_seconds: Callable[[], float],
    decoders: int,
    cores: int,
    done: Callable[[Headspace], None],
) -> Iterator[Any]:
    """Yield ``count`` batches, then as many repeated ones; then call ``done`` with the result.

    The repeated batches are a few of the first ones.

    ``cpu_seconds`` returns those of the decoders so far. Of an epoch that is shorter, all
    batches are measured.
    """
    kept: list[Any] = []
    seen, begun, work = 0, 0.0, 0.0
    for number, batch in enumerate(islice(batches, count + _WARM)):
        if number == _WARM:
            begun, work = _synchronized_time(), cpu_seconds()
        if len(kept) < _KEPT:
            kept.append(batch)
        seen = number + 1
        yield batch
    fed, work = _synchronized_time() - begun, cpu_seconds() - work
    counted = seen - _WARM
    if counted < 1:
        raise ValueError(
            f"the epoch has {how_many(seen, 'batch', 'batches')}, too few to measure: at least {_WARM + 1} are needed"
        )
    for number, batch in enumerate(islice(cycle(kept), counted + _WARM)):
        if number == _WARM:
            begun = _synchronized_time()
        yield batch
    free = max(_synchronized_time() - begun, 1e-9)
    done(Headspace(counted, fed / counted, free / counted, work / counted, decoders, cores))


def _synchronized_time() -> float:
    """Return the time, after the device has done what it was asked for."""
    if uses_cuda():
        torch.cuda.synchronize()
    return time.perf_counter()
