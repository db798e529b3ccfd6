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
from wdsflow.scan.evidence import Run, Runs, Shape, ShardEvidence
from wdsflow.shards.tar.members import Stop


class LossPlace(NamedTuple):
    """The first place of a loss or crash."""

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
    first: dict[Loss, LossPlace] = field(default_factory=dict)
    crash: Fate | None = None
    crash_place: LossPlace | None = None

    def add(self, fate: Fate, count: int, place: LossPlace, shape: Shape) -> None:
        """Count ``count`` samples that meet one fate."""
        if fate.kind == "crash":
            self.crash, self.crash_place = fate, place
            return
        self.formed += count
        self.complete += count * (fate.stage in ("decode", "batch"))
        self.decoded += count * (fate.stage == "batch")
        if fate.kind == "usable":
            self.usable += count
            return
        loss = Loss(fate.reason, fate.detail)
        self.lost[loss] += count
        self.shapes.setdefault(loss, Counter())[shape] += count
        self.first.setdefault(loss, place)

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
        for loss, place in other.first.items():
            self.first.setdefault(loss, place)
        if self.crash is None:
            self.crash, self.crash_place = other.crash, other.crash_place


class _Pass:
    def __init__(self, reader: Reader) -> None:
        self.reader, self.fates_of = reader, cache(reader.fates)
        self.result = PassResult()
        self.open: Run | None = None
        self.open_shard = ""
        # Runs of further shards in the open one.
        self.joined = 0

    def take(self, shape: Shape, count: int, place: LossPlace, joined: int = 0) -> bool:
        fates = self.fates_of(shape)
        self.result.split += count * max(0, len(fates) - 1 - joined)
        for fate in fates:
            self.result.add(fate, count, place, shape)
            if fate.kind == "crash":
                return False
        return True

    def close(self) -> bool:
        run, joined, self.open, self.joined = self.open, self.joined, None, 0
        return run is None or self.take(
            run.shape, 1, LossPlace(self.open_shard, run.key, run.offset), joined
        )

    def begin(self, run: Run, shard: ShardEvidence) -> bool:
        if self.open is not None and self.open.key == run.key:
            self.open = Run(run.key, self.open.offset, self.open.shape + run.shape)
            self.joined += 1
            return True
        if not self.close():
            return False
        self.open, self.open_shard = run, shard.url
        return True

    def inner(self, runs: Runs, shard: ShardEvidence) -> bool:
        crashes = (
            item
            for item in runs.inner
            if any(fate.kind == "crash" for fate in self.fates_of(item.shape))
        )
        crashing = next(crashes, None)
        counts = [item.count for item in runs.inner] if crashing is None else crashing.before
        for item, count in zip(runs.inner, counts, strict=False):
            if count:
                self.take(item.shape, count, LossPlace(shard.url, item.key, item.offset))
        return crashing is None or self.take(
            crashing.shape, 1, LossPlace(shard.url, crashing.key, crashing.offset)
        )

    def crash(self, fate: Fate, shard: ShardEvidence, offset: int | None = None) -> bool:
        """Handle an error that passes through the grouping stage, which loses its open sample."""
        self.result.add(fate, 0, LossPlace(shard.url, None, offset), ())
        return False

    def shard(self, shard: ShardEvidence) -> bool:
        if crash := self.reader.at_shard(shard):
            return self.crash(crash, shard)
        stop, runs = shard.stop, self.reader.runs(shard)
        if not self.reader.opens(shard):
            stop, runs = Stop("unreadable", 0, f"stored as {shard.compression}"), Runs()
        if runs.head is not None and not self.begin(runs.head, shard):
            return False
        if runs.tail is not None and not (
            self.close() and self.inner(runs, shard) and self.begin(runs.tail, shard)
        ):
            return False
        if crash := self.reader.at_stop(stop):
            if self.reader.flushes(shard) and not self.close():
                return False
            return self.crash(crash, shard, stop.offset)
        return self.reader.joins or self.close()


def run_pass(reader: Reader, shards: Sequence[ShardEvidence]) -> PassResult:
    """Walk shards in the given order as one worker of the reader would, once."""
    preparation = reader.preparation(shards)
    if preparation is not None and (before := run_pass(preparation, shards)).crash is not None:
        return PassResult(crash=before.crash, crash_place=before.crash_place)
    walk = _Pass(reader.bound_to(shards))
    if shards and (crash := reader.at_start(shards)):
        walk.crash(crash, shards[0])
    elif all(walk.shard(shard) for shard in shards):
        walk.close()
    result = walk.result
    if shards and not result.complete and result.crash is None and reader.empty_raises:
        walk.crash(Fate("crash", "group", "no-samples"), shards[0])
    if shards and not result.usable and result.crash is None and reader.gives_up:
        walk.crash(Fate("crash", "batch", "gives-up"), shards[0])
    return result
