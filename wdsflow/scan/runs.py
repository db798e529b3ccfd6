"""Runs of members with one key, counted by shape, and facts from the shapes of a shard."""

from collections.abc import Callable

from wdsflow.shards.tar.members import is_junk

from .evidence import FieldCount, Part, Run, Runs, Shape, ShapeCount, ShardEvidence, Tally
from .naming import is_dotted, is_numbered

# Members; those of a longer run beyond that are not distinguished.
LONGEST_RUN = 1000
# In one shard; more than that only with malicious names.
MOST_SHAPES = 20_000
# A reader that raises stops at the first bad shape, hardly ever at the 257th.
_SNAPSHOTS = 256


class RunCollector:
    """Collects members in the order of the tar, and returns the shard's runs at the end."""

    def __init__(self) -> None:
        # Of the open run.
        self.key: str | None = None
        self.offset = 0
        self.parts: list[Part] = []
        self.head: Run | None = None
        self.counts: dict[Shape, int] = {}
        # Of each shape in counts.
        self.places: list[tuple[str, int, tuple[int, ...]]] = []
        self.long_runs = 0
        # The key of the open run was met before.
        self.is_again = False
        # Runs of such keys.
        self.again: dict[Shape, int] = {}

    def copy(self) -> "RunCollector":
        """Return an independent collector in the same state."""
        other = RunCollector()
        other.key, other.offset, other.parts = self.key, self.offset, list(self.parts)
        other.head, other.counts, other.places = self.head, dict(self.counts), list(self.places)
        other.long_runs = self.long_runs
        other.is_again, other.again = self.is_again, dict(self.again)
        return other

    def add(self, key: str, part: Part, offset: int, *, again: bool = False) -> None:
        """Take one member that has a key; ``again``: other keys were between it and earlier members with its key."""
        if key == self.key:
            if len(self.parts) < LONGEST_RUN:
                self.parts.append(part)
        else:
            self.close()
            self.key, self.offset, self.parts = key, offset, [part]
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
            self.places.append((self.key, self.offset, before))
            self.counts[shape] = 1

    def note_again(self, shape: Shape) -> None:
        """Count the open run, which ends with this shape, if its key was met before."""
        if self.is_again:
            self.again[shape] = self.again.get(shape, 0) + 1
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
        inner = tuple(
            ShapeCount(shape, count, key, offset, before)
            for (shape, count), (key, offset, before) in zip(
                self.counts.items(), self.places, strict=True
            )
        )
        return Runs(self.head, inner, last)


def is_junk_run(key: str, shape: Shape) -> bool:
    """Return whether neighbouring members with one key are all junk, such as macOS twins."""
    return all(is_junk(key, part.suffix) for part in shape)


def note_shapes(shard: ShardEvidence, note: Callable[[str], Tally]) -> None:
    """Count fields, repeated fields, dotted names and the samples that these hide: a shape at a time."""
    runs = sorted(shard.runs.counted(), key=lambda item: item.offset)
    counts: dict[str, int] = {}
    places: dict[str, tuple[str, int]] = {}
    for item in runs:
        lower = [part.suffix.lower() for part in item.shape]
        if len(lower) > len(set(lower)):
            note("key.duplicate-field").add(item.key, item.offset, count=item.count)
        for suffix in lower:
            counts[suffix] = counts.get(suffix, 0) + item.count
            places.setdefault(suffix, (item.key, item.offset))
    # Numbered files of one sample are next to a field without a dot: 0.jpg, 1.jpg and txt.
    shard.numbered = any(
        sum(is_numbered(part.suffix) for part in item.shape) > 1
        and any("." not in part.suffix for part in item.shape)
        for item in runs
    )
    for suffix, count in counts.items():
        known = len(shard.fields) < 256 or suffix in shard.fields
        name = suffix if known else "*." + suffix.rpartition(".")[2][:16]
        shard.fields.setdefault(name, FieldCount()).count += count
    # A field such as input.jpg is in most samples; the rest of a dotted base name in one or a few.
    # folder/._a.jpg: field _a.jpg.
    of_samples = [item for item in runs if not is_junk_run(item.key, item.shape)]
    fields = {part.suffix.lower() for item in of_samples for part in item.shape}
    wild = [
        suffix
        for suffix, count in counts.items()
        if is_dotted(suffix)
        and suffix in fields
        and (count < 2 or count < shard.samples / 2)
        and not (shard.numbered and is_numbered(suffix))
    ]
    for suffix in wild:
        note("name.dotted").add(*places[suffix], suffix, counts[suffix])
    if wild:
        is_wild = frozenset(wild).__contains__
        shard.samples += sum(item.count * merged(item.shape, is_wild) for item in of_samples)


def merged(shape: Shape, is_wild: Callable[[str], bool]) -> int:
    """Return how many samples dots in base names have merged into one run, the one that shows not counted.

    ``img.v1.jpg``, ``img.v1.txt`` and ``img.v2.jpg`` are one run with the key ``img``, and were two
    samples.
    """
    names = {part.suffix.lower() for part in shape}
    # Next to plain fields an odd one, such as thumb.jpg in one sample of many, is a field like
    # others.
    return (
        len({name.rpartition(".")[0] for name in names}) - 1
        if names and all(map(is_wild, names))
        else 0
    )
