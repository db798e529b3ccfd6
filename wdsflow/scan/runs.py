"""Collects the runs of one shard: neighbouring members with one key, counted by shape."""

from .evidence import Part, Run, Runs, Shape, ShapeCount

LONGEST_RUN = 1000  # members; what a longer run has beyond that is not told apart
MOST_SHAPES = 20_000  # in one shard; more than that only where names are chosen to hurt
_SNAPSHOTS = 256  # a reader that raises stops at the first bad shape, hardly ever at the 257th


class RunCollector:
    """Takes members one by one, in the order of the tar, and gives the shard's runs at the end."""

    def __init__(self) -> None:
        self.key: str | None = None  # of the open run
        self.offset = 0
        self.parts: list[Part] = []
        self.head: Run | None = None
        self.counts: dict[Shape, int] = {}
        self.places: list[tuple[str, int, tuple[int, ...]]] = []  # of each shape in counts
        self.long_runs = 0

    def copy(self) -> "RunCollector":
        """Return an independent collector in the same state."""
        other = RunCollector()
        other.key, other.offset, other.parts = self.key, self.offset, list(self.parts)
        other.head, other.counts, other.places = self.head, dict(self.counts), list(self.places)
        other.long_runs = self.long_runs
        return other

    def add(self, key: str, part: Part, offset: int) -> None:
        """Take one member that has a key."""
        if key == self.key:
            if len(self.parts) < LONGEST_RUN:
                self.parts.append(part)
            return
        self.close()
        self.key, self.offset, self.parts = key, offset, [part]

    def begin(self, key: str, offset: int) -> None:
        """Begin a run, which may stay without members."""
        self.close()
        self.key, self.offset, self.parts = key, offset, []

    def close(self) -> None:
        """End the open run; it can no longer be the last one of the shard."""
        if self.key is None:
            return
        self.long_runs += len(self.parts) >= LONGEST_RUN
        shape = tuple(self.parts)
        if self.head is None:
            self.head = Run(self.key, self.offset, shape)
        elif shape in self.counts:
            self.counts[shape] += 1
        else:
            self.new(shape)

    def new(self, shape: Shape) -> None:
        """Count a shape for the first time, and remember what came before it."""
        if len(self.counts) >= MOST_SHAPES:
            return
        assert self.key is not None
        before = tuple(self.counts.values()) if len(self.counts) < _SNAPSHOTS else ()
        self.places.append((self.key, self.offset, before))
        self.counts[shape] = 1

    def runs(self) -> Runs:
        """Return all runs; nothing can be added afterwards."""
        if self.key is None:
            return Runs()
        last = Run(self.key, self.offset, tuple(self.parts))
        self.long_runs += len(self.parts) >= LONGEST_RUN
        if self.head is None:
            return Runs(head=last)
        inner = tuple(
            ShapeCount(shape, count, key, offset, before)
            for (shape, count), (key, offset, before) in zip(self.counts.items(), self.places, strict=True)
        )
        return Runs(self.head, inner, last)
