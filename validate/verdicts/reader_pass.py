"""One pass of a reader over shards, computed from evidence: samples formed, lost and usable.

Samples are counted by shape, so a pass over a shard costs as many steps as it has distinct shapes.
Runs at the ends of shards are walked individually, because a reader that does not mark the end of a
shard continues the open sample in the next one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from wdsflow.readers.base import Fate, Reader
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.shapes import Run, Runs, Shape, ShapeCount
from wdsflow.shards.tar.members import Stop


class LossLocation(NamedTuple):
    """Where a loss or a crash comes first."""

    shard: str | None
    key: str | None
    offset: int | None


class Loss(NamedTuple):
    """Why a sample is not usable, and through which field."""

    reason: str
    detail: str


@dataclass(slots=True)
class PassResult:
    """The result of one pass."""

    # Samples as the reader forms them.
    formed: int = 0
    # Of those, the ones that it cuts off from a run of one key.
    split: int = 0
    # Of those, not ended by grouping or filtering.
    complete: int = 0
    # Of those, not ended by decoding.
    decoded: int = 0
    usable: int = 0
    lost: Counter[Loss] = field(default_factory=Counter)
    shapes: dict[Loss, Counter[Shape]] = field(default_factory=dict)
    first: dict[Loss, LossLocation] = field(default_factory=dict)
    crash: Fate | None = None
    crash_location: LossLocation | None = None

    def add(self, fate: Fate, count: int, location: LossLocation, shape: Shape) -> None:
        """Count ``count`` samples that meet one fate."""
        if fate.kind == "crash":
            self.crash = fate
            self.crash_location = location
            return
        self.formed += count
        if fate.stage in ("decode", "batch"):
            self.complete += count
        if fate.stage == "batch":
            self.decoded += count
        if fate.kind == "usable":
            self.usable += count
            return
        loss = Loss(fate.reason, fate.detail)
        self.lost[loss] += count
        self.shapes.setdefault(loss, Counter())[shape] += count
        self.first.setdefault(loss, location)

    def merge(self, other: "PassResult") -> None:
        """Add the result of another worker's pass."""
        self.formed += other.formed
        self.split += other.split
        self.complete += other.complete
        self.decoded += other.decoded
        self.usable += other.usable
        self.lost.update(other.lost)
        for loss, shapes in other.shapes.items():
            self.shapes.setdefault(loss, Counter()).update(shapes)
        for loss, location in other.first.items():
            self.first.setdefault(loss, location)
        if self.crash is None:
            self.crash = other.crash
            self.crash_location = other.crash_location


def run_pass(reader: Reader, shards: Sequence[ShardEvidence]) -> PassResult:
    """Walk shards in the given order as one worker of the reader would, once."""
    preparation = reader.preparing_reader(shards)
    if preparation is not None:
        prepared = run_pass(preparation, shards)
        if prepared.crash is not None:
            return PassResult(crash=prepared.crash, crash_location=prepared.crash_location)
    walk = _Walk(reader.bound_to(shards))
    result = walk.result
    if not shards:
        return result
    crash = reader.crash_at_start(shards)
    if crash is not None:
        walk.end(crash, shards[0])
    elif all(walk.read(shard) for shard in shards):
        walk.close()
    if not result.complete and result.crash is None and reader.empty_raises:
        walk.end(Fate("crash", "group", "no-samples"), shards[0])
    if not result.usable and result.crash is None and reader.gives_up:
        walk.end(Fate("crash", "batch", "gives-up"), shards[0])
    return result


class _Walk:
    """One worker on its way through the shards.

    Its methods return False once an exception has ended it.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.result = PassResult()
        self._fates_of = cache(reader.fates)
        # The run that the next shard may continue, and the shard in which it began.
        self._open: Run | None = None
        self._open_shard = ""
        # Runs of further shards in the open one.
        self._joined = 0

    def read(self, shard: ShardEvidence) -> bool:
        """Read one shard, up to its end or its damage."""
        crash = self.reader.crash_at_shard(shard)
        if crash is not None:
            return self.end(crash, shard)
        stop = shard.stop
        runs = self.reader.runs(shard)
        if not self.reader.opens(shard):
            stop = Stop("unreadable", 0, f"stored as {shard.compression}")
            runs = Runs()
        if runs.head is not None and not self._begin(runs.head, shard):
            return False
        if runs.tail is not None:
            is_read = self.close() and self._count_inner(runs, shard)
            if not is_read or not self._begin(runs.tail, shard):
                return False
        crash = self.reader.crash_at_stop(stop)
        if crash is not None:
            if self.reader.yields_open_sample(shard) and not self.close():
                return False
            return self.end(crash, shard, stop.offset)
        return self.reader.joins or self.close()

    def close(self) -> bool:
        """Count the open run, which nothing continues."""
        run = self._open
        joined = self._joined
        self._open = None
        self._joined = 0
        if run is None:
            return True
        location = LossLocation(self._open_shard, run.key, run.offset)
        return self._count(run.shape, 1, location, joined)

    def end(self, crash: Fate, shard: ShardEvidence, offset: int | None = None) -> bool:
        """Note an error that passes through the grouping stage, which loses its open sample."""
        self.result.add(crash, 0, LossLocation(shard.url, None, offset), ())
        return False

    def _begin(self, run: Run, shard: ShardEvidence) -> bool:
        """Open a run, or continue the open one if it has the same key."""
        if self._open is not None and self._open.key == run.key:
            self._open = Run(run.key, self._open.offset, self._open.shape + run.shape)
            self._joined += 1
            return True
        if not self.close():
            return False
        self._open = run
        self._open_shard = shard.url
        return True

    def _count_inner(self, runs: Runs, shard: ShardEvidence) -> bool:
        """Count the runs between the first and the last of a shard.

        It stops at the first run that ends the reader.
        """
        crashing: ShapeCount | None = None
        for item in runs.inner:
            if any(fate.kind == "crash" for fate in self._fates_of(item.shape)):
                crashing = item
                break
        counts: Sequence[int] = [item.count for item in runs.inner]
        if crashing is not None:
            counts = crashing.before
        # Those after the crash are not counted.
        for item, count in zip(runs.inner, counts, strict=False):
            if count:
                self._count(item.shape, count, LossLocation(shard.url, item.key, item.offset))
        if crashing is None:
            return True
        location = LossLocation(shard.url, crashing.key, crashing.offset)
        return self._count(crashing.shape, 1, location)

    def _count(self, shape: Shape, count: int, location: LossLocation, joined: int = 0) -> bool:
        """Count runs of one shape.

        Args:
            shape: of the runs.
            count: of the runs.
            location: of the first of them.
            joined: runs of further shards in it, which are no samples of their own.
        """
        fates = self._fates_of(shape)
        self.result.split += count * max(0, len(fates) - 1 - joined)
        for fate in fates:
            self.result.add(fate, count, location, shape)
            if fate.kind == "crash":
                return False
        return True
