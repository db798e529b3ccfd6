"""Runs of members with one key, counted by shape."""

from collections.abc import Callable
from typing import NamedTuple

from wdsflow.shards.tar.members import is_junk

from .shapes import Part, Run, Runs, Shape, ShapeCount

# Members; those of a longer run beyond that are not distinguished.
LONGEST_RUN = 1000
# In one shard; more than that only with malicious names.
MOST_SHAPES = 20_000
# A reader that raises stops at the first bad shape, hardly ever at the 257th.
_SNAPSHOTS = 256


class _FirstRun(NamedTuple):
    """The first inner run of a shape."""

    key: str
    offset: int
    # Counts of the shapes that were counted earlier.
    before: tuple[int, ...]


class RunCollector:
    """Collects members in the order of the tar, and returns the shard's runs at the end."""

    def __init__(self) -> None:
        # Of the open run.
        self.key: str | None = None
        self.offset = 0
        self.parts: list[Part] = []
        # The key of the open run has occurred before.
        self.is_again = False
        self.head: Run | None = None
        self.counts: dict[Shape, int] = {}
        # Of each shape in counts.
        self.firsts: list[_FirstRun] = []
        self.long_runs = 0
        # Runs whose key has occurred before, by shape.
        self.resumed: dict[Shape, int] = {}

    def copy(self) -> "RunCollector":
        """Return an independent collector in the same state."""
        other = RunCollector()
        other.key = self.key
        other.offset = self.offset
        other.parts = list(self.parts)
        other.is_again = self.is_again
        other.head = self.head
        other.counts = dict(self.counts)
        other.firsts = list(self.firsts)
        other.long_runs = self.long_runs
        other.resumed = dict(self.resumed)
        return other

    def add(self, key: str, part: Part, offset: int, *, again: bool = False) -> None:
        """Add one member that has a key.

        ``again``: other keys were between this member and earlier members with its key.
        """
        if key == self.key:
            if len(self.parts) < LONGEST_RUN:
                self.parts.append(part)
            return
        self.close()
        self.key = key
        self.offset = offset
        self.parts = [part]
        self.is_again = again

    def close(self) -> None:
        """End the open run; it can no longer be the last one of the shard."""
        if self.key is None:
            return
        self.long_runs += len(self.parts) >= LONGEST_RUN
        shape = tuple(self.parts)
        self.note_again(shape)
        if self.head is None:
            self.head = Run(self.key, self.offset, shape)
        elif shape in self.counts:
            self.counts[shape] += 1
        elif len(self.counts) < MOST_SHAPES:
            before = tuple(self.counts.values()) if len(self.counts) < _SNAPSHOTS else ()
            self.firsts.append(_FirstRun(self.key, self.offset, before))
            self.counts[shape] = 1

    def note_again(self, shape: Shape) -> None:
        """Count the open run, which ends with this shape, if its key has occurred before."""
        if self.is_again:
            self.resumed[shape] = self.resumed.get(shape, 0) + 1
            self.is_again = False

    def runs(self) -> Runs:
        """Return all runs; nothing can be added afterwards."""
        if self.key is None:
            return Runs()
        last = Run(self.key, self.offset, tuple(self.parts))
        self.note_again(last.shape)
        self.long_runs += len(self.parts) >= LONGEST_RUN
        if self.head is None:
            return Runs(head=last)
        inner = []
        for (shape, count), first in zip(self.counts.items(), self.firsts, strict=True):
            inner.append(ShapeCount(shape, count, first.key, first.offset, first.before))
        return Runs(self.head, tuple(inner), last)


def is_junk_run(key: str, shape: Shape) -> bool:
    """Return whether neighbouring members with one key are all junk, such as macOS twins."""
    return all(is_junk(key, part.suffix) for part in shape)


def count_merged_samples(shape: Shape, is_wild: Callable[[str], bool]) -> int:
    """Return how many additional samples a run contains, merged because of dots in base names.

    ``img.v1.jpg``, ``img.v1.txt`` and ``img.v2.jpg`` are one run with the key ``img``, and were two
    samples.
    """
    names = {part.suffix.lower() for part in shape}
    # Next to plain fields an odd one, such as thumb.jpg in
    # one sample of many, is a field like others.
    if not names or not all(map(is_wild, names)):
        return 0
    stems = {name.rpartition(".")[0] for name in names}
    return len(stems) - 1
