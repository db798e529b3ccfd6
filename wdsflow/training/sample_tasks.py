"""What goes through the feed: where a sample is, the task to make it, the chunk of tasks that a decoder gets."""

from collections.abc import Sequence
from typing import NamedTuple


class Blob(NamedTuple):
    """A member: where it is in its shard, or its bytes where the shard can only be read once."""

    name: str  # field, lower case
    size: int  # bytes
    at: int  # offset in the shard, -1 where it cannot be read later
    data: bytes | None = None


class SampleRef(NamedTuple):
    """One sample that has an image and what may hold its caption."""

    shard: str  # url
    key: str
    image: Blob
    texts: tuple[Blob, ...]

    @property
    def held(self) -> int:
        """Bytes of content that the reference itself holds."""
        return sum(len(blob.data) for blob in (self.image, *self.texts) if blob.data is not None)

    def without_content(self) -> "SampleRef":
        """Return a reference that holds no content; itself where it holds none."""
        if not self.held:
            return self
        texts = tuple(blob._replace(data=None) for blob in self.texts)
        return self._replace(image=self.image._replace(data=None), texts=texts)


class LaneTask(NamedTuple):
    """One sample to be made: where it is, and the seed of all that is drawn for it."""

    ref: SampleRef
    seed: int
    turn: int  # pass of its lane
    number: int  # in its pass


class Chunk(NamedTuple):
    """Tasks of one lane that are done together."""

    lane: int
    tasks: Sequence[LaneTask]


class Reading(NamedTuple):
    """A shard that is being read, and has given nothing for some time."""

    shard: str  # url
    seconds: float
    samples: int  # that it gave before
    key: str  # of the last of them
