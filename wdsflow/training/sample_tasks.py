"""The values that pass through the feed: the location of a sample, its task, a chunk of tasks for a decoder."""

from collections.abc import Sequence
from typing import NamedTuple

from wdsflow.shards.shard import Shard


class Blob(NamedTuple):
    """A member: its location in the shard, or its bytes if the shard can only be read once."""

    name: str  # field, lower case
    size: int  # bytes
    at: int  # offset in the shard, -1 if it cannot be read later
    data: bytes | None = None


NO_IMAGE = Blob("", 0, -1)


class SampleRef(NamedTuple):
    """One sample that has all members it needs."""

    shard: Shard
    key: str
    image: Blob  # NO_IMAGE if it has none
    texts: tuple[Blob, ...]  # the other members that are read

    @property
    def held(self) -> int:
        """Bytes of content that the reference itself holds."""
        return sum(len(blob.data) for blob in (self.image, *self.texts) if blob.data is not None)

    def without_content(self) -> "SampleRef":
        """Return the reference without content."""
        if not self.held:
            return self
        texts = tuple(blob._replace(data=None) for blob in self.texts)
        return self._replace(image=self.image._replace(data=None), texts=texts)


class LaneTask(NamedTuple):
    """One sample to make, and its random seed."""

    ref: SampleRef
    seed: int
    turn: int  # pass of its lane
    number: int  # in its pass
    source: int = 0


class Chunk(NamedTuple):
    """Tasks of one lane that are sent to a decoder together."""

    lane: int
    tasks: Sequence[LaneTask]


class Reading(NamedTuple):
    """A shard whose next sample has been awaited for some time."""

    shard: Shard
    seconds: float
    samples: int  # so far
    key: str  # of the last of them
