"""What would pass if something were changed: changes to the shapes of samples, judged by the consumer again."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .consumers.base import Consumer
from .evidence import NO_CAPTION, OK, OPAQUE, UNKNOWN, Part, Runs, Shape, ShardEvidence
from .rules.base import Context
from .rules.missing import undotted
from .rules.shapes import counted

Shapes = Counter[Shape]
Change = Callable[[ShardEvidence, Shapes], Shapes]
_SOUND_JSON = frozenset({OK, NO_CAPTION, UNKNOWN, OPAQUE})
_MOST_PAIRED = 100  # shapes of a shard that are tried with one another


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a change comes to for one consumer."""

    usable: int
    gained: int
    bound: bool = False  # True: at most so many, because which parts belong together was not recorded


class Trial:
    """The shards as one consumer sees them, ready for changes."""

    def __init__(self, context: Context, consumer: Consumer, usable: int) -> None:
        self.context = context
        self.consumer = consumer
        self.now = usable  # from the verdict: it knows of samples that go over shards' borders
        self.shapes = [
            _shapes(consumer.runs(shard)) if consumer.opens(shard) else Counter() for shard in context.evidence.shards
        ]
        self.before = [self.count(shapes) for shapes in self.shapes]

    def count(self, shapes: Shapes) -> int:
        """Return how many samples of these shapes the consumer uses."""
        return sum(number * self.context.usable(self.consumer, shape) for shape, number in shapes.items())

    def try_out(self, *changes: Change, limit: Callable[[ShardEvidence], int] | None = None) -> Outcome:
        """Return what passes after the changes, applied one after another.

        Args:
            changes: what is changed in the shapes of each shard.
            limit: for each shard, how many samples can be gained at the most.
        """
        gained = 0
        for shard, shapes, before in zip(self.context.evidence.shards, self.shapes, self.before, strict=True):
            changed = shapes
            for change in changes:
                changed = change(shard, changed)
            more = self.count(changed) - before
            gained += more if limit is None else min(more, limit(shard))
        return Outcome(self.now + gained, gained)

    def read_by(
        self,
        reader: Consumer,
        *changes: Change,
        ceiling: Callable[[ShardEvidence], int] | None = None,
    ) -> Outcome:
        """Return what passes if another reader takes the shards.

        Args:
            reader: with options of its own.
            changes: to what the scan says of contents, which it judged for other options.
            ceiling: for each shard, how many samples can pass at the most.
        """
        usable: dict[Shape, int] = {}  # not the context's memory: that knows readers by their identity
        gained = 0
        for shard, shapes, before in zip(self.context.evidence.shards, self.shapes, self.before, strict=True):
            after = 0
            changed = shapes
            for change in changes:
                changed = change(shard, changed)
            for shape, number in changed.items():
                if shape not in usable:
                    usable[shape] = sum(fate.kind == "usable" for fate in reader.fates(shape))
                after += number * usable[shape]
            gained += (after if ceiling is None else min(after, ceiling(shard))) - before
        return Outcome(self.now + gained, gained)


def _shapes(runs: Runs) -> Shapes:
    shapes: Shapes = Counter()
    for item in counted(runs):
        shapes[item.shape] += item.count
    return shapes


def each(change: Callable[[ShardEvidence, Shape], Iterable[Shape]]) -> Change:
    """Return a change that treats every shape by itself."""

    def changed(shard: ShardEvidence, shapes: Shapes) -> Shapes:
        result: Shapes = Counter()
        for shape, number in shapes.items():
            for new in change(shard, shape):
                result[new] += number
        return result

    return changed


def _with_caption(_: ShardEvidence, shape: Shape) -> Iterable[Shape]:
    names = {part.suffix.lower() for part in shape}
    has = any(part.suffix.lower() == "json" and part.status in _SOUND_JSON for part in shape)
    return [(*shape, Part("txt", OK)) if has and "txt" not in names else shape]


write_captions: Change = each(_with_caption)
"""Adds a txt to samples that have sound json and no txt."""


def any_caption(_: ShardEvidence, shapes: Shapes) -> Shapes:
    """Let json without a caption under the names asked for count as having one, under another name."""
    changed: Shapes = Counter()
    for shape, number in shapes.items():
        mended = (Part(part.suffix, OK) if part.status == NO_CAPTION else part for part in shape)
        changed[tuple(mended)] += number
    return changed


def rename(old: str, new: str) -> Change:
    """Give a field another name where the new one is free."""

    def renamed(_: ShardEvidence, shape: Shape) -> Iterable[Shape]:
        names = {part.suffix.lower() for part in shape}
        if old not in names or new in names:
            return [shape]
        return [tuple(Part(new, part.status) if part.suffix.lower() == old else part for part in shape)]

    return each(renamed)


def drop_field(name: str) -> Change:
    """Leave a field out."""
    return each(lambda _, shape: [tuple(part for part in shape if part.suffix.lower() != name)])


def drop_hidden(shard: ShardEvidence, shapes: Shapes) -> Shapes:
    """Leave macOS twins and dot-files out, which brings the parts that they separate together again."""
    return shapes if shard.visible_runs is None else _shapes(shard.visible_runs)


def undot(shard: ShardEvidence, shapes: Shapes) -> Shapes:
    """End keys at the last dot of a base name: what was one run becomes one for each such key."""
    if not shard.tally("name.dotted").count:
        return shapes

    def split(shard: ShardEvidence, shape: Shape) -> Iterable[Shape]:
        groups: dict[str, list[Part]] = {}
        for part in shape:
            mended = undotted(shard, part)
            key = "" if mended is part else part.suffix.rpartition(".")[0]
            groups.setdefault(key, []).append(mended)
        return [tuple(group) for group in groups.values()]

    return each(split)(shard, shapes)


def regrouped(trial: Trial) -> Outcome:
    """Return what passes at the most if parts that lie apart were brought together.

    Which parts share a key was not recorded: so many halves of one kind as there are of the other, and no more
    than keys that came back.
    """
    gained = 0
    for shard, shapes in zip(trial.context.evidence.shards, trial.shapes, strict=True):
        apart = shard.tally("key.again").count
        if not apart:
            continue
        idle = {shape: number for shape, number in shapes.items() if not trial.context.usable(trial.consumer, shape)}
        gained += min(apart, _pairs(trial, idle))
    return Outcome(trial.now + gained, gained, bound=True)


def _pairs(trial: Trial, idle: dict[Shape, int]) -> int:
    """Count pairs of unusable shapes that would be usable joined, each run used once."""
    left, pairs = dict(idle), 0
    some_idle = list(idle)[:_MOST_PAIRED]
    for first in some_idle:
        for second in some_idle:
            if first is second or not trial.context.usable(trial.consumer, first + second):
                continue
            some = min(left[first], left[second])
            left[first] -= some
            left[second] -= some
            pairs += some
    return pairs
