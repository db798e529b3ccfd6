"""The forms of a sample in the feed: the location of its members, its task, and its result."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from wdsflow.shards.shard import Shard
from wdsflow.training.stalls.loss_tally import FeedLoss


class Blob(NamedTuple):
    """A member: its location in the shard, or its bytes if the shard can only be read once."""

    # Field, lower case.
    name: str
    # Bytes.
    size: int
    # Offset in the shard, -1 if it cannot be read later.
    at: int
    data: bytes | None = None


NO_IMAGE = Blob("", 0, -1)


class SampleRef(NamedTuple):
    """One sample that has all members it needs."""

    shard: Shard
    key: str
    # NO_IMAGE if it has none.
    image: Blob
    # The other members that are read.
    texts: tuple[Blob, ...]
    # Its row in a table that is joined; -1 if it gets no values from one.
    row: int = -1
    # The path of a file with the bytes of the shard, if that is on a server; "" for none.
    stored_at: str = ""

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

    ``round``: the pass over the source. It is 0 where streams last for the whole epoch, and begin
    again themselves.
    """

    source: int
    round: int
    # Among the streams of this round of the source.
    number: int


class MadeSample(NamedTuple):
    """A sample that has been decoded: its values in a batch."""

    # From ``ImageWork.run``; of a decoding process, its
    # parent has a view of shared memory, or a copy.
    image: object
    # From the tokenizer, without its first dimension; before that, the caption.
    text: object
    # Other columns.
    other_values: tuple[object, ...] = ()


@dataclass(slots=True, eq=False)
class Task:
    """One sample to make, and what became of it.

    ``seed``: for its random transforms. ``round``: of its stream. ``number``: in this round.
    ``slot``: for its image, in memory that processes share; -1 for none. ``result``: None while it
    is not known.
    """

    ref: SampleRef
    seed: int
    stream: StreamKey
    round: int
    number: int
    slot: int = -1
    result: MadeSample | FeedLoss | None = None

    @property
    def made(self) -> MadeSample:
        """The sample, if it was not lost."""
        assert isinstance(self.result, MadeSample)
        return self.result

    def drop_content(self) -> None:
        """Drop the content that the sample was made of."""
        self.ref = self.ref.without_content()

    def __reduce__(self) -> tuple[object, ...]:
        # Plain tuples: named ones, which pickle calls in Python, take three times as long.
        ref = self.ref
        texts = [tuple(blob) for blob in ref.texts]
        members = ref.shard, ref.key, tuple(ref.image), texts, ref.row, ref.stored_at
        return _task, (members, self.seed, tuple(self.stream), self.round, self.number, self.slot)


class Chunk:
    """Tasks that a decoder processes together.

    ``done``: all tasks have results, or the work has raised ``error``.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks
        self.error: BaseException | None = None
        self.done = False

    def results(self) -> Sequence[Task]:
        """Return the tasks with their results, or raise the error of the work."""
        if self.error is not None:
            raise self.error
        return self.tasks


class HangingShard(NamedTuple):
    """A shard whose next sample has been awaited for some time."""

    shard: Shard
    seconds: float
    # So far.
    samples: int
    # Of the last of them.
    key: str


def _task(
    members: tuple[Any, ...],
    seed: int,
    stream: tuple[Any, ...],
    round_: int,
    number: int,
    slot: int,
) -> Task:
    """Return a task from its pickle."""
    shard, key, image, texts, row, stored_at = members
    ref = SampleRef(shard, key, Blob(*image), tuple(Blob(*text) for text in texts), row, stored_at)
    return Task(ref, seed, StreamKey(*stream), round_, number, slot)
