"""The next samples to make, and the boundaries of batches."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from wdsflow.training.sample_tasks import Chunk
from wdsflow.training.stalls.loss_tally import LEFT_OVER, REPEATED, FeedLoss, LossTally
from wdsflow.training.workers.sample_work import MadeSample

from ..sample_tasks import LaneTask
from .lanes import Lane, LanePosition
from .schedule import Schedule

_IDLE: tuple[LaneTask, ...] = ()


class EpochPosition(NamedTuple):
    """Where an epoch is: after ``batch`` batches, with all lanes at ``lanes``; or, of a balanced schedule, after ``samples``."""

    batch: int = 0
    lanes: Sequence[LanePosition] = ()
    samples: int = 0


class Cut(NamedTuple):
    """The samples of one batch, and the position after it."""

    number: int  # in its epoch
    samples: list[MadeSample]
    tasks: list[LaneTask]  # of the samples
    after: EpochPosition


class StarvedError(RuntimeError):
    """A lane cannot fill a batch. ``usable``: samples of its last whole pass; ``in_a_row``: lost samples in a row."""

    def __init__(self, lane: int, usable: int, in_a_row: int | None = None) -> None:
        super().__init__(lane, usable, in_a_row)
        self.lane, self.usable, self.in_a_row = lane, usable, in_a_row


class Losses:
    """Counts lost samples of an epoch. Raises StarvedError if ``most`` are lost in a row; ``idle`` may raise, too."""

    def __init__(self, tally: LossTally, most: int, idle: Callable[[], None]) -> None:
        self.in_a_row = 0
        self._tally, self._most, self._idle = tally, most, idle

    def lose(self, loss: FeedLoss, turn: int = 0) -> None:
        """Count a lost sample once per epoch, not per pass."""
        if not turn:
            self._tally.lose(loss)
        if loss.stage == "select" and not turn:
            self._tally.lacking(tuple(loss.detail.split(", ")))
        self.miss()

    def miss(self) -> None:
        """Count a sample that is not there."""
        self.in_a_row += 1
        if self.in_a_row >= self._most:
            raise StarvedError(-1, 0, self.in_a_row)
        if self.in_a_row % 100 == 0:
            self._idle()


class _Stream:
    """A lane, its samples in progress, and those that wait for a batch."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.position = LanePosition(lane.turn, lane.begun)
        self.ready: deque[tuple[LaneTask, MadeSample]] = deque()
        self.on_their_way = 0  # tasks
        self.over = False  # no more tasks
        self.turn = lane.turn  # pass of the present results
        self.made = 0  # samples of that pass
        self.whole = lane.begun == 0  # read from its beginning

    @property
    def expected(self) -> int:
        return len(self.ready) + self.on_their_way


class Planner:
    """Hands out chunks in the order in which batches need them, and cuts batches from the results.

    Used by one thread. Decisions depend only on the results, never on timing.

    Args:
        schedule: the lanes, and the sizes of batches.
        lanes: makes the lanes, from the function that they call with samples lost while listing.
        tally: counts samples.
        ahead: samples beyond the next batch that may be made.
        most_bytes: limit of raw content held by samples in progress.
        chunk: samples of a chunk.
        first: number of the next batch.
        last: number of batches of the epoch, if known.
        most_lost: samples lost in a row that count as starvation.
        idle: called periodically if listing takes long; may raise.
    """

    def __init__(
        self,
        schedule: Schedule,
        lanes: Callable[[Callable[[FeedLoss, int], None]], Sequence[Lane]],
        tally: LossTally,
        *,
        ahead: int,
        most_bytes: int,
        chunk: int,
        first: int,
        last: int | None,
        most_lost: int,
        idle: Callable[[], None],
    ) -> None:
        self.next_batch = first
        self._schedule, self._tally, self._ahead, self._chunk = schedule, tally, ahead, chunk
        self._last, self._losses = last, Losses(tally, most_lost, idle)
        self._most_bytes, self._held = most_bytes, 0
        self._streams = [_Stream(lane) for lane in lanes(self._losses.lose)]
        self._order = deque(self._streams)  # the first fills the next batch
        self._order.rotate(-(first % len(self._streams)))

    def close(self) -> None:
        """Let all lanes stop reading ahead."""
        for stream in self._streams:
            stream.lane.close()

    @property
    def lane_in_turn(self) -> int:
        """The lane that the next batch comes from."""
        return self._order[0].lane.number if self._order else -1

    @property
    def finished(self) -> bool:
        """Whether all batches of the epoch have been cut."""
        if self._last is not None and self.next_batch >= self._last:
            return True
        return not self._order

    def chunks(self) -> Iterator[Chunk]:
        """Yield the next chunks; an empty one if enough samples are in progress."""
        while not self.finished:
            stream, count = self._neediest()
            if stream is None or self._held >= self._most_bytes:
                yield Chunk(-1, _IDLE)
                continue
            tasks = self._draw(stream, min(count, self._chunk))
            stream.on_their_way += len(tasks)
            yield Chunk(stream.lane.number, tasks)

    def take(self, chunk: Chunk, results: Sequence[MadeSample | FeedLoss]) -> None:
        """Take the results of a chunk. Raises StarvedError if a lane cannot fill a batch."""
        if not chunk.tasks:
            return
        stream = self._streams[chunk.lane]
        stream.on_their_way -= len(chunk.tasks)
        for task, result in zip(chunk.tasks, results, strict=True):
            self._held -= task.ref.held
            while task.turn > stream.turn:
                self._end_pass(stream)
            if isinstance(result, FeedLoss):
                self._losses.lose(result, task.turn)
                continue
            self._losses.in_a_row = 0
            stream.made += 1
            stream.ready.append((task._replace(ref=task.ref.without_content()), result))

    def cut(self) -> Cut | None:
        """Return the next batch if it is complete. Raises StarvedError if it never will be."""
        while not self.finished:
            stream = self._order[0]
            size = self._schedule.batch_size
            if len(stream.ready) >= size:
                return self._cut(stream, size)
            if not stream.over or stream.on_their_way:
                return None
            if self._schedule.at_end != "stop":
                raise StarvedError(stream.lane.number, stream.made)
            if stream.ready:
                return self._cut(stream, len(stream.ready))
            self._order.popleft()
        return None

    def _cut(self, stream: _Stream, size: int) -> Cut:
        taken = [stream.ready.popleft() for _ in range(size)]
        last = taken[-1][0]
        repeated = sum(task.turn > 0 for task, _ in taken) if last.turn else 0
        self._tally.kept += size - repeated
        if repeated:
            self._tally.noted[REPEATED] += repeated
        stream.position = LanePosition(last.turn, last.number + 1)
        tasks, samples = [task for task, _ in taken], [made for _, made in taken]
        after = EpochPosition(self.next_batch + 1, [each.position for each in self._streams])
        cut = Cut(self.next_batch, samples, tasks, after)
        self.next_batch += 1
        self._order.rotate(-1)
        return cut

    def _neediest(self) -> tuple[_Stream | None, int]:
        """Return the stream of the earliest incomplete batch, and how many samples it lacks."""
        budget = self._schedule.batch_size + self._ahead
        wanted: dict[int, int] = {}
        number = self.next_batch
        while budget > 0 and (self._last is None or number < self._last):
            stream = self._order[(number - self.next_batch) % len(self._order)]
            size = min(self._schedule.batch_size, budget)
            budget -= size
            number += 1
            lane = stream.lane.number
            wanted[lane] = wanted.get(lane, 0) + size
            if not stream.over and stream.expected < wanted[lane]:
                return stream, wanted[lane] - stream.expected
        return None, 0

    def _draw(self, stream: _Stream, count: int) -> list[LaneTask]:
        tasks: list[LaneTask] = []
        lane = stream.lane
        while len(tasks) < count and (not tasks or self._held < self._most_bytes):
            task = lane.next()
            if task is not None:
                tasks.append(task)
                self._held += task.ref.held
            elif self._schedule.at_end == "stop" or self._schedule.endless or not lane.handed:
                stream.over = True
                break
            else:
                lane.turn_over()
        return tasks

    def _end_pass(self, stream: _Stream) -> None:
        """End a pass whose results are complete."""
        size = self._schedule.batch_size
        left = sum(task.turn == stream.turn for task, _ in stream.ready) % size
        for _ in range(left):
            stream.ready.pop()
        if left and not stream.turn:
            self._tally.noted[LEFT_OVER] += left
        if stream.whole and stream.made < size:
            raise StarvedError(stream.lane.number, stream.made)
        stream.turn += 1
        stream.made, stream.whole = 0, True
