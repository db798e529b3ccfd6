"""Carries out an order: which samples are made next, and which batch each of them belongs to."""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from wdsflow.training.orders.order import EpochPosition, Order, OrderStep, StreamPosition, StreamRun
from wdsflow.training.sample_tasks import StreamKey, Task
from wdsflow.training.stalls.loss_tally import LEFT_OVER, REPEATED, FeedLoss, LossTally

from .losses import Losses, StarvedError
from .planned_step import PlannedRun, PlannedStep, StreamInUse
from .replacements import OpenStream, Replacements
from .stream import Stream

# Samples that are planned together.
_AT_ONCE = 1000


class BatchSamples(NamedTuple):
    """The samples of one batch, and the position after it. ``number``: in its epoch."""

    number: int
    samples: list[Task]
    after: EpochPosition


class Planner:
    """Hands out chunks of tasks in batch order, and builds batches from the results.

    Used by one thread. What is in a batch depends only on the order and on the results, never on
    timing: results come in the order of their tasks.

    Args:
        order: the batches of each epoch.
        epoch: its number.
        begin: the position in it.
        open_stream: opens a stream of the order.
        tally: counts samples.
        ahead: samples beyond the next batch that may be made.
        most_bytes: limit of raw content held by samples in progress.
        chunk: samples of a chunk.
        most_lost: samples lost in a row that count as starvation.
        idle: called periodically if listing takes long; may raise.
    """

    def __init__(
        self,
        order: Order,
        epoch: int,
        begin: EpochPosition,
        open_stream: OpenStream,
        tally: LossTally,
        *,
        ahead: int,
        most_bytes: int,
        chunk: int,
        most_lost: int,
        idle: Callable[[], None],
    ) -> None:
        self._order, self._epoch, self._open_stream, self._tally = order, epoch, open_stream, tally
        self._ahead, self._most_bytes, self._chunk = ahead, most_bytes, chunk
        self._losses = Losses(tally, most_lost, idle)
        self._replacements = Replacements(
            order.first_round(epoch), open_stream, Losses(tally, most_lost, idle)
        )
        self._next_number = order.batches_before(begin)
        self._steps = order.steps(epoch, begin)
        self._all_planned = False
        self._planned: deque[PlannedStep] = deque()
        self._planned_samples = 0
        # What is drawn next: runs of planned steps, and without one, what fills an earlier run.
        self._to_draw: deque[tuple[StreamRun, PlannedRun | None]] = deque()
        self._streams: dict[StreamKey, StreamInUse] = {}
        # Drawn, not lost, and not in a batch yet.
        self._drawn = 0
        # Bytes of raw content of samples in progress.
        self._held = 0
        try:
            if not order.global_order:
                self._open_all(begin.streams)
            self._plan()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let all streams stop reading ahead, and drop the samples that are in no batch."""
        for used in self._streams.values():
            used.close()
        self._replacements.close()
        # Their images are in shared memory, which must not wait until garbage is collected.
        self._planned.clear()
        self._streams.clear()

    def abandon(self) -> None:
        """Make all streams stop reading ahead soon.

        Takes no lock, because garbage collection may call it anywhere.
        """
        for used in self._streams.values():
            used.stream.abandon()

    @property
    def all_drawn(self) -> bool:
        """Whether the tasks of all batches of the epoch have been drawn.

        Tasks that replace lost samples do not count.
        """
        return self._all_planned and not self._to_draw

    @property
    def is_finished(self) -> bool:
        """Whether all batches of the epoch have been given."""
        return not self._planned

    @property
    def awaited_stream(self) -> StreamKey | None:
        """The stream that the next batch comes from; None if it comes from several. Thread-safe."""
        if self._order.global_order:
            return None
        for planned in self._planned.copy():
            return planned.step.runs[0].stream
        return None

    def draw(self) -> list[Task]:
        """Return the next tasks for a decoder; none if enough samples are in progress."""
        return self._draw() or self._replacements.search(self._chunk)

    def take_results(self, tasks: Sequence[Task]) -> None:
        """Take drawn tasks, which now have results.

        Raises StarvedError if too many samples were lost in a row.
        """
        if self._replacements.take(tasks):
            return
        for task in tasks:
            self._held -= task.ref.held
            used = self._streams[task.stream]
            used.in_progress -= 1
            while task.round > used.round and not used.starved:
                self._end_round(used)
            if used.starved:
                self._drawn -= 1
            elif isinstance(task.result, FeedLoss):
                self._lose(used, task, task.result)
            else:
                self._losses.in_a_row = 0
                used.usable += 1
                task.drop_content()
                used.add(task)
            if not used.in_progress:
                self._end_if_complete(used)

    def next_batch(self) -> BatchSamples | None:
        """Return the next batch if it is complete. Raises StarvedError if it never will be."""
        while self._planned:
            first = self._planned[0]
            if not first.is_complete:
                return None
            samples = self._filled(first) if self._order.global_order else self._full(first)
            if samples is None:
                self._plan()
                return None
            self._planned.popleft()
            self._planned_samples -= first.size
            self._plan()
            # A stream that has stopped may have no sample left for its batch.
            if samples:
                return self._give(first, samples)
        return None

    def _give(self, planned: PlannedStep, samples: list[Task]) -> BatchSamples:
        """Return a batch of these samples, and count them."""
        filled = planned.lost
        new = len(samples) - filled
        # The stream of a strict order begins again to fill its batches.
        again = sum(task.round > task.stream.round for task in samples)
        repeated = new if planned.step.repeated else again
        self._drawn -= new
        self._tally.kept += new - repeated
        if filled + repeated:
            self._tally.noted[REPEATED] += filled + repeated
        streams: list[StreamPosition] = []
        if not self._order.global_order:
            last = samples[-1]
            self._streams[last.stream].given_position = StreamPosition(last.round, last.number + 1)
            streams = [used.given_position for used in self._streams.values()]
        number = self._next_number
        self._next_number += 1
        after = EpochPosition(number + 1, streams, planned.step.stop)
        return BatchSamples(number, samples, after)

    # Planning

    def _open_all(self, positions: Sequence[StreamPosition]) -> None:
        """Open all streams: they last for the whole epoch."""
        for number, key in enumerate(self._order.first_round(self._epoch)):
            self._open(key, positions[number] if positions else StreamPosition())
        # Once all read ahead.
        for used in self._streams.values():
            used.stream.skip_to(used.given_position.number)

    def _open(self, key: StreamKey, position: StreamPosition) -> None:
        """Open a stream in the round of a position.

        If its shards cannot seek, the stream begins to read ahead.
        """
        stream = self._open_stream(key, position.round, self._losses.count_loss)
        self._streams[key] = StreamInUse(stream, position)

    def _plan(self) -> None:
        """Plan steps until enough samples are planned, and the next ones to draw are known."""
        while (
            not self._planned
            or not self._to_draw
            or self._planned_samples < min(_AT_ONCE, self._planned[0].size + self._ahead)
        ):
            step = self._next_step()
            if step is None:
                self._all_planned = True
                return
            planned = PlannedStep(step)
            self._planned.append(planned)
            self._planned_samples += planned.size
            self._to_draw.extend(zip(step.runs, planned.runs, strict=True))
            # All of them at once: one after the other, each would have to wait for its server.
            for run in step.runs:
                if run.stream not in self._streams:
                    self._open(run.stream, StreamPosition(run.stream.round))

    def _next_step(self) -> OrderStep | None:
        """Return the next step, unless the streams that the epoch needs have ended."""
        if self._order.global_order:
            return next(self._steps, None)
        ended = {key for key, used in self._streams.items() if used.ended}
        # A stream that ends instead of beginning again is an error, once its batch is the next.
        if len(ended) == len(self._streams) or (ended and self._order.at_end == "restart"):
            return None
        for step in self._steps:
            if step.runs[0].stream not in ended:
                return step
        return None

    # Drawing

    def _draw(self) -> list[Task]:
        """Draw the next samples, unless enough of them are in progress."""
        tasks: list[Task] = []
        count = min(self._chunk, self._planned[0].size + self._ahead - self._drawn)
        while len(tasks) < count and self._held < self._most_bytes:
            if not self._to_draw:
                self._plan()
            if not self._to_draw:
                break
            self._draw_run(tasks, count - len(tasks))
        return tasks

    def _draw_run(self, tasks: list[Task], most: int) -> None:
        """Draw samples of the next run, at most so many."""
        run, planned = self._to_draw.popleft()
        used = self._streams[run.stream]
        if not used.begun:
            used.begun = True
            self._close_passed(run.stream)
        if planned is not None:
            used.runs.append(planned)
        if run.first is not None:
            # Other ranks take those before.
            used.stream.skip_to(run.first)
        drawn = 0
        while not used.ended and drawn < min(run.samples, most) and self._held < self._most_bytes:
            task = self._next_task(used.stream)
            if task is None:
                used.ended = True
                break
            tasks.append(task)
            drawn += 1
            self._held += task.ref.held
        self._drawn += drawn
        used.in_progress += drawn
        if drawn < run.samples and not used.ended:
            self._to_draw.appendleft((run.after(drawn), None))
            return
        if run.ends:
            # There is none: it counts what is lost after the last sample.
            used.stream.next()
            used.close()
        if not used.in_progress:
            self._end_if_complete(used)

    def _close_passed(self, begun: StreamKey) -> None:
        """Close the streams of earlier rounds that are no longer needed.

        Other ranks take their last samples.
        """
        passed = [
            used
            for key, used in self._streams.items()
            if key.source == begun.source and key.round < begun.round
        ]
        if not passed:
            return
        needed = {run.stream for run, _ in self._to_draw}
        for used in passed:
            if used.stream.key not in needed:
                used.close()
                if not used.in_progress:
                    self._end_if_complete(used)

    def _next_task(self, stream: Stream) -> Task | None:
        """Return the next task of a stream; None if it has ended."""
        order = self._order
        while (task := stream.next()) is None:
            if order.at_end == "stop" or order.endless or not stream.drawn:
                return None
            stream.restart()
        return task

    def _draw_again(self, used: StreamInUse, count: int) -> None:
        """Draw more samples of a stream, before all others: earlier batches wait for them."""
        if count:
            self._to_draw.appendleft((StreamRun(used.stream.key, None, count), None))

    # Results

    def _lose(self, used: StreamInUse, task: Task, loss: FeedLoss) -> None:
        self._losses.count_loss(loss, task.round)
        self._drawn -= 1
        if self._order.global_order:
            used.add(None)
        else:
            self._draw_again(used, 1)

    def _end_round(self, used: StreamInUse) -> None:
        """End a round of a stream whose results are complete.

        Its samples for an incomplete batch are dropped.
        """
        left_over = used.runs[0].clear() if used.runs else 0
        self._drawn -= left_over
        if left_over and not used.round:
            self._tally.noted[LEFT_OVER] += left_over
        if used.from_beginning and used.usable < self._order.batch_size:
            # An error, but once its batch is the next: those before it can still be given.
            used.starved = used.ended = True
            return
        self._draw_again(used, left_over)
        used.round += 1
        used.usable, used.from_beginning = 0, True

    def _end_if_complete(self, used: StreamInUse) -> None:
        """Expect no more results of a stream without tasks in progress, if it has no more tasks."""
        if used.ended:
            while used.runs:
                run = used.runs.popleft()
                if self._order.global_order:
                    self._miss(run)
                else:
                    run.end()
        if used.closed:
            del self._streams[used.stream.key]

    def _miss(self, run: PlannedRun) -> None:
        """Count the samples of a run that its shards do not have as lost."""
        while run.missing:
            self._losses.count_missing()
            run.add(None)

    # Batches

    def _full(self, planned: PlannedStep) -> list[Task]:
        """Return the samples of the next batch.

        There are fewer than planned, or none, if its stream has stopped.
        """
        samples = planned.valid()
        if len(samples) < planned.size and self._order.at_end == "restart":
            key = planned.step.runs[0].stream
            raise StarvedError(key, self._streams[key].usable)
        return samples

    def _filled(self, planned: PlannedStep) -> list[Task] | None:
        """Return the samples of the next batch, with other samples in the slots of lost ones.

        None while the other samples are not ready.
        """
        return self._replacements.fill(
            planned,
            islice(self._planned, 1, None),
            all_planned=self._all_planned,
            lost_in_a_row=self._losses.in_a_row,
        )
