"""The samples and batches of the balanced schedule: each position of its order once, whether its sample can be used or not."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from wdsflow.training.sample_tasks import Chunk, LaneTask
from wdsflow.training.stalls.loss_tally import REPEATED, FeedLoss, LossTally
from wdsflow.training.workers.sample_work import MadeSample

from .balanced import Balanced, Part, Step
from .batch_planner import Cut, EpochPosition, Losses, StarvedError
from .first_valid import FirstValid
from .lanes import Lane

_IDLE: tuple[LaneTask, ...] = ()
_AT_ONCE = 1000  # positions that are planned together


class _Batch:
    """A step that is being made: ``made`` has a sample, or None where one was lost; ``open``: positions without result."""

    def __init__(self, number: int, step: Step) -> None:
        self.number, self.step = number, step
        self.undrawn = deque(step.parts)
        self.tasks: list[LaneTask | None] = []
        self.made: list[MadeSample | None] = []
        self.lost = 0  # samples, and positions of which the shard has none
        self.open = step.size

    @property
    def complete(self) -> bool:
        """Whether all its samples are made or lost."""
        return not self.open

    def good(self) -> list[tuple[LaneTask, MadeSample]]:
        """Return the samples that are made so far, with their tasks."""
        pairs = zip(self.tasks, self.made, strict=True)
        return [(task, made) for task, made in pairs if task is not None and made is not None]


class BalancedPlanner:
    """Hands out chunks in the order of a ``Balanced`` schedule, and cuts its steps. Used by one thread.

    A lost sample keeps its position, so that other ranks need not know of it. The first sample of the next batch that
    has one takes its place, and is noted as repeated: within a batch no sample is there twice, which losses that compare
    the samples of a batch would take for a pair of different ones. At the end of the epoch another sample of the same
    batch takes it, and if there is none, the first valid ones of the epoch. So what takes its place does not depend on
    where a run was resumed.

    Args:
        schedule: the order.
        epoch: its number.
        start: samples of the epoch, of all ranks, that have been given.
        lane: opens the lane of a part, at its first sample, with the function that it calls with lost samples.
        tally: counts samples.
        ahead: samples beyond the next batch that may be made.
        most_bytes: limit of raw content held by samples in progress.
        chunk: samples of a chunk.
        most_lost: samples lost in a row that count as starvation.
        idle: called periodically if listing takes long; may raise.
    """

    lane_in_turn = -1

    def __init__(
        self,
        schedule: Balanced,
        epoch: int,
        start: int,
        lane: Callable[[Part, Callable[[FeedLoss, int], None]], Lane],
        tally: LossTally,
        *,
        ahead: int,
        most_bytes: int,
        chunk: int,
        most_lost: int,
        idle: Callable[[], None],
    ) -> None:
        self._schedule, self._epoch, self._open, self._tally = schedule, epoch, lane, tally
        self._ahead, self._most_bytes, self._chunk = ahead, most_bytes, chunk
        self._steps = schedule.steps(epoch, start)
        self.next_batch = self._planned = schedule.num_batches - schedule.steps_left(start)
        self._batches: deque[_Batch] = deque()
        self._drawing: deque[_Batch] = deque()  # those of them with positions that are not drawn yet
        self._lanes: dict[tuple[int, int, int], tuple[Lane, int]] = {}  # with the position of the next sample
        # Where the results of each chunk go; None: to the search for the first valid samples of the epoch.
        self._sent: deque[list[tuple[_Batch, int]] | None] = deque()
        self._drawn = 0  # positions that are drawn, are not lost, and not in a batch yet
        self._held = 0
        self._losses = Losses(tally, most_lost, idle)
        self._first_valid = FirstValid(schedule, epoch, lane, Losses(tally, most_lost, idle))
        self._first_needed = 0  # samples of it that the first batch waits for
        self._all_planned = False
        self._plan()

    def close(self) -> None:
        """Let all lanes stop reading ahead."""
        for lane, _ in self._lanes.values():
            lane.close()
        self._first_valid.close()

    @property
    def finished(self) -> bool:
        """Whether all batches of the epoch have been cut."""
        return not self._batches

    def chunks(self) -> Iterator[Chunk]:
        """Yield the next chunks; an empty one if enough samples are in progress."""
        while not self.finished:
            tasks = self._draw_ahead() or self._search()
            yield Chunk(-1, tasks or _IDLE)

    def take(self, chunk: Chunk, results: Sequence[MadeSample | FeedLoss]) -> None:
        """Take the results of a chunk. Raises StarvedError if too many samples were lost in a row."""
        if not chunk.tasks:
            return
        positions = self._sent.popleft()
        if positions is None:
            self._first_valid.take(chunk.tasks, results)
            return
        for task, (batch, at), result in zip(chunk.tasks, positions, results, strict=True):
            self._held -= task.ref.held
            batch.open -= 1
            if isinstance(result, FeedLoss):
                self._drawn -= 1
                batch.lost += 1
                self._losses.lose(result, task.turn)
                continue
            self._losses.in_a_row = 0
            batch.tasks[at], batch.made[at] = task._replace(ref=task.ref.without_content()), result

    def cut(self) -> Cut | None:
        """Return the next batch if it is complete. Raises StarvedError if no sample of the epoch can be used."""
        if not self._batches or not self._batches[0].complete:
            return None
        batch = self._batches[0]
        if not self._fill(batch):
            return None
        self._batches.popleft()
        self._plan()
        good = batch.good()
        after = EpochPosition(batch.number + 1, samples=batch.step.stop)
        return Cut(batch.number, [made for _, made in good], [task for task, _ in good], after)

    def _fill(self, batch: _Batch) -> bool:
        """Put other samples in the place of lost ones; return False while these are not known."""
        good = batch.good()
        if batch.lost:
            others = self._others(batch)
            if not others:
                return False
            lost = [at for at, made in enumerate(batch.made) if made is None]
            for number, at in enumerate(lost):
                batch.tasks[at], batch.made[at] = others[number % len(others)]
        self._drawn -= len(good)
        self._tally.kept += 0 if batch.step.repeated else len(good)
        repeated = batch.lost + (len(good) if batch.step.repeated else 0)
        if repeated:
            self._tally.noted[REPEATED] += repeated
        return True

    def _others(self, batch: _Batch) -> list[tuple[LaneTask, MadeSample]]:
        """Return what takes the place of the lost samples of the first batch; none while that is not known.

        Raises StarvedError if no sample of the epoch can be used.
        """
        for later in islice(self._batches, 1, None):
            following = later.good()[: batch.lost]
            if len(following) == batch.lost or (following and later.complete):
                return following
            if not later.complete:
                return []
        if not self._all_planned:
            self._plan()
            return []
        if good := batch.good():
            return good
        self._first_needed = batch.lost
        first = self._first_valid
        if len(first.samples) < batch.lost and not first.exhausted:
            return []
        if not first.samples:
            raise StarvedError(-1, 0, self._losses.in_a_row)
        return first.samples[: batch.lost]

    def _plan(self) -> None:
        """Plan steps until the next samples to draw are known."""
        while self._drawing and not self._drawing[0].undrawn:
            self._drawing.popleft()
        planned = sum(batch.step.size for batch in self._batches)
        while (
            not self._batches or not self._drawing or planned < min(_AT_ONCE, self._batches[0].step.size + self._ahead)
        ):
            step = next(self._steps, None)
            if step is None:
                self._all_planned = True
                return
            batch = _Batch(self._planned, step)
            self._batches.append(batch)
            self._drawing.append(batch)
            self._planned += 1
            planned += step.size

    def _search(self) -> list[LaneTask]:
        """Draw samples from the beginning of the epoch, if the first batch needs some."""
        if len(self._first_valid.samples) >= self._first_needed:
            return []
        tasks = self._first_valid.draw(self._chunk)
        if tasks:
            self._sent.append(None)
        return tasks

    def _draw_ahead(self) -> list[LaneTask]:
        """Draw the next positions, unless enough samples are in progress."""
        wanted = self._batches[0].step.size + self._ahead - self._drawn
        return self._draw(min(wanted, self._chunk)) if wanted > 0 else []

    def _draw(self, count: int) -> list[LaneTask]:
        """Draw the next positions. One for which the shard has no sample is lost at once."""
        tasks: list[LaneTask] = []
        places: list[tuple[_Batch, int]] = []
        while len(tasks) < count and self._drawing and (not tasks or self._held < self._most_bytes):
            batch = self._drawing[0]
            if not batch.undrawn:
                self._plan()
                continue
            task = self._next(batch)
            batch.tasks.append(task)
            batch.made.append(None)
            if task is None:
                batch.open -= 1
                batch.lost += 1
                self._losses.miss()
                continue
            places.append((batch, len(batch.tasks) - 1))
            tasks.append(task)
            self._held += task.ref.held
        if tasks:
            self._drawn += len(tasks)
            self._sent.append(places)
        return tasks

    def _next(self, batch: _Batch) -> LaneTask | None:
        """Return the task of the next position of a batch, after those of its lane that other ranks take."""
        part = batch.undrawn[0]
        key = part[:3]
        if key not in self._lanes:
            self._close_passed(batch, part)
            self._lanes[key] = self._open(part, self._losses.lose), part.first
        lane, at = self._lanes[key]
        lane.skip(part.first - at)
        task = lane.next()
        self._lanes[key] = lane, part.first + 1
        if part.samples > 1:
            batch.undrawn[0] = part._replace(first=part.first + 1, samples=part.samples - 1)
        else:
            batch.undrawn.popleft()
            if part.first + 1 == self._schedule.lane_length(self._epoch, part):
                lane.next()  # none: it counts what is lost after the last sample
                lane.close()
                del self._lanes[key]
        return task and task._replace(source=part.source)

    def _close_passed(self, batch: _Batch, part: Part) -> None:
        """Close lanes of earlier passes of a source: other ranks take their last samples."""
        passed = {key for key in self._lanes if key[0] == part.source and key[1] < part.turn}
        for key in passed.difference(other[:3] for other in batch.undrawn):
            self._lanes.pop(key)[0].close()
