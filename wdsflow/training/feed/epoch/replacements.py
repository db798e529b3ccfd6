"""Fills the slots of lost samples in batches, if one order of samples is shared by all ranks."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from itertools import cycle, islice
from typing import TypeAlias

from wdsflow.training.sample_tasks import StreamKey, Task
from wdsflow.training.stalls.loss_tally import FeedLoss

from .losses import Losses, StarvedError
from .planned_step import PlannedStep
from .stream import Stream

# Opens a stream at the beginning of a round, with the function that it calls with samples lost
# while listing, and with their round.
OpenStream: TypeAlias = Callable[[StreamKey, int, Callable[[FeedLoss, int], None]], Stream]


class Replacements:
    """Fills the slots of lost samples.

    The first samples of the next batch that has some fill them: within a batch no sample is there
    twice, which losses that compare the samples of a batch would take for a pair of different ones.
    At the end of the epoch other samples of the same batch fill them, and if there are none, the
    first valid ones of the epoch, which are searched for from its beginning. So what fills a slot
    does not depend on where a run was resumed, and is the same on all ranks.

    Args:
        streams: all streams of the first round, in their order.
        open_stream: opens one of them.
        losses: counts the samples in a row that cannot be used. Those of the search are not of this
            rank, so it must have a count of its own.
    """

    def __init__(
        self, streams: Iterable[StreamKey], open_stream: OpenStream, losses: Losses
    ) -> None:
        self._losses = losses
        # Of the epoch, from its beginning.
        self._tasks = _all_tasks(streams, open_stream)
        self._first_valid: list[Task] = []
        self._exhausted = False
        # Valid samples that the next batch waits for.
        self._needed = 0
        self._in_progress: Sequence[Task] | None = None

    def search(self, count: int) -> list[Task]:
        """Return the next tasks of the search, if the next batch needs more samples.

        There are at most ``count``.
        """
        if len(self._first_valid) >= self._needed or self._in_progress is not None:
            return []
        tasks = list(islice(self._tasks, count))
        self._exhausted = not tasks
        self._in_progress = tasks or None
        return tasks

    def take(self, tasks: Sequence[Task]) -> bool:
        """Take tasks with results; return whether they are of the search. Raises StarvedError."""
        if tasks is not self._in_progress:
            return False
        self._in_progress = None
        for task in tasks:
            if isinstance(task.result, FeedLoss):
                self._losses.count_missing()
            else:
                self._losses.in_a_row = 0
                task.drop_content()
                self._first_valid.append(task)
        return True

    def fill(
        self,
        planned: PlannedStep,
        later: Iterable[PlannedStep],
        *,
        all_planned: bool,
        lost_in_a_row: int,
    ) -> list[Task] | None:
        """Return the samples of a complete step, with other samples in the slots of lost ones.

        None while the other samples are not ready.

        Args:
            planned: the step.
            later: the planned steps after it.
            all_planned: whether these are all steps up to the end of the epoch.
            lost_in_a_row: samples that this rank lost, for the error.

        Raises:
            StarvedError: no sample of the epoch can be used.
        """
        if not planned.lost:
            return planned.valid()
        others = self._of_later_steps(planned.lost, later)
        if others is None and all_planned:
            others = planned.valid() or self._first_ones(planned.lost, lost_in_a_row)
        if not others:
            return None
        endless = cycle(others)
        return [next(endless) if task is None else task for task in planned.samples()]

    def close(self) -> None:
        """Let the open stream stop reading ahead."""
        self._tasks.close()

    def _of_later_steps(self, count: int, later: Iterable[PlannedStep]) -> list[Task] | None:
        """Return the first valid samples of the next step that has some.

        Empty while that step is incomplete, None if no step has any.
        """
        for step in later:
            following = step.valid()[:count]
            if len(following) == count or (following and step.is_complete):
                return following
            if not step.is_complete:
                return []
        return None

    def _first_ones(self, count: int, lost_in_a_row: int) -> list[Task]:
        """Return the first valid samples of the epoch; [] while they are searched for."""
        self._needed = count
        if len(self._first_valid) < count and not self._exhausted:
            return []
        if not self._first_valid:
            raise StarvedError(None, 0, lost_in_a_row)
        return self._first_valid[:count]


def _all_tasks(
    streams: Iterable[StreamKey], open_stream: OpenStream
) -> Generator[Task, None, None]:
    for key in streams:
        with closing(open_stream(key, key.round, _uncounted)) as stream:
            while (task := stream.next()) is not None:
                yield task


def _uncounted(loss: FeedLoss, round_: int) -> None:
    """Leave a lost sample to the rank that it belongs to."""
