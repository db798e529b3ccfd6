"""The shape of a sample: its fields in tar order with their statuses, and how often it occurs.

Samples are counted by shape, so that evidence stays small however many there are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Part(NamedTuple):
    """One member for a reader: the field name as in the tar, and the status of its contents."""

    suffix: str
    status: str
    # False: Hugging Face datasets cannot convert the value
    # to the type of the first samples' values.
    fits: bool = True


Shape = tuple[Part, ...]


class Run(NamedTuple):
    """Neighbouring members that share one key, in the order of the tar."""

    key: str
    # Of the first member's header, bytes from the start of the (uncompressed) tar.
    offset: int
    shape: Shape


@dataclass(frozen=True, slots=True)
class ShapeCount:
    """How often, and where first, a shape occurs among the inner runs of a shard."""

    shape: Shape
    count: int
    key: str
    offset: int
    # Counts of the shapes listed earlier, at this shape's first occurrence.
    before: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Runs:
    """All runs of a shard.

    The first and last runs are kept apart, because a reader may join them with the neighbouring
    shards.
    """

    head: Run | None = None
    inner: tuple[ShapeCount, ...] = ()
    # None where the shard has fewer than two runs.
    tail: Run | None = None

    @property
    def count(self) -> int:
        """How many runs there are."""
        ends = [run for run in (self.head, self.tail) if run is not None]
        return len(ends) + sum(item.count for item in self.inner)

    @property
    def last(self) -> Run | None:
        """The last run, which may be the only one."""
        return self.tail or self.head

    def shape_counts(self, *, with_tail: bool = True) -> Iterator[ShapeCount]:
        """Yield the shapes of the first run, of the runs between, and of the last run.

        The shape of the last run may also be among the others.

        ``with_tail=False`` leaves out the last run, which a cut may have damaged.
        """
        if self.head is not None and (with_tail or self.tail is not None):
            yield ShapeCount(self.head.shape, 1, self.head.key, self.head.offset)
        yield from self.inner
        if self.tail is not None and with_tail:
            yield ShapeCount(self.tail.shape, 1, self.tail.key, self.tail.offset)

    def shapes(self) -> set[Shape]:
        """Return the distinct shapes."""
        return {item.shape for item in self.shape_counts()}
