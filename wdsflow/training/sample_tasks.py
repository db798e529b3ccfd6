"""The values that pass through the feed: the location of a sample, its stream, its task."""

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
        held = 0 if self.image.data is None else len(self.image.data)
        for blob in self.texts:
            if blob.data is not None:
                held += len(blob.data)
        return held

    def without_content(self) -> "SampleRef":
        """Return the reference without content."""
        if not self.held:
            return self
        texts = tuple(blob._replace(data=None) for blob in self.texts)
        return self._replace(image=self.image._replace(data=None), texts=texts)


class StreamKey(NamedTuple):
    """Names a stream: shards of one source that are read one after the other.

    ``round``: the pass over the source. It is 0 where streams last for the whole epoch, and begin again themselves.
    """

    source: int
    round: int
    number: int  # among the streams of this round of the source


class Task(NamedTuple):
    """One sample to make, and its random seed."""

    ref: SampleRef
    seed: int
    stream: StreamKey
    round: int  # of its stream
    number: int  # in this round

    def without_content(self) -> "Task":
        """Return the task without the content that its sample was made of."""
        return self._replace(ref=self.ref.without_content()) if self.ref.held else self


class Reading(NamedTuple):
    """A shard whose next sample has been awaited for some time."""

    shard: Shard
    seconds: float
    samples: int  # so far
    key: str  # of the last of them
