"""The first samples of an epoch that can be used."""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from itertools import islice

from wdsflow.training.sample_tasks import LaneTask
from wdsflow.training.stalls.loss_tally import FeedLoss
from wdsflow.training.workers.sample_work import MadeSample

from .balanced import Balanced, Part
from .batch_planner import Losses
from .lanes import Lane


class FirstValid:
    """Searches an epoch from its beginning for samples that can be used.

    A rank gives them if all its own samples from some position on are lost. The order of the epoch alone decides which
    samples they are: they are the same on all ranks, and after any resume.

    ``samples``: those found so far. ``exhausted``: there are no others.

    Args:
        schedule: the order.
        epoch: its number.
        lane: opens the lane of a part, with the function that it calls with lost samples.
        losses: counts the samples that cannot be used. They are not of this rank, so it must have a count of its own.
    """

    def __init__(
        self,
        schedule: Balanced,
        epoch: int,
        lane: Callable[[Part, Callable[[FeedLoss, int], None]], Lane],
        losses: Losses,
    ) -> None:
        self.samples: list[tuple[LaneTask, MadeSample]] = []
        self.exhausted = False
        self._in_progress = False
        self._tasks = _all_tasks(schedule, epoch, lane)
        self._losses = losses

    def draw(self, count: int) -> list[LaneTask]:
        """Return the next tasks; none while others are in progress, or if there are no more."""
        if self._in_progress:
            return []
        tasks = list(islice(self._tasks, count))
        self._in_progress = bool(tasks)
        self.exhausted = not tasks
        return tasks

    def take(self, tasks: Sequence[LaneTask], results: Sequence[MadeSample | FeedLoss]) -> None:
        """Take the results of the tasks that were drawn. Raises StarvedError if too many samples were lost in a row."""
        self._in_progress = False
        for task, result in zip(tasks, results, strict=True):
            if isinstance(result, FeedLoss):
                self._losses.miss()
            else:
                self._losses.in_a_row = 0
                self.samples.append((task._replace(ref=task.ref.without_content()), result))

    def close(self) -> None:
        """Let the open lane stop reading ahead."""
        self._tasks.close()


def _all_tasks(
    schedule: Balanced, epoch: int, open_lane: Callable[[Part, Callable[[FeedLoss, int], None]], Lane]
) -> Generator[LaneTask, None, None]:
    for part in schedule.first_pass(epoch):
        with closing(open_lane(part, _uncounted)) as lane:
            while (task := lane.next()) is not None:
                yield task._replace(source=part.source)


def _uncounted(loss: FeedLoss, turn: int) -> None:
    """Leave a lost sample to the rank that it belongs to."""
