"""The first samples of an epoch that can be used."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from itertools import islice
from typing import TypeAlias

from wdsflow.training.orders.order import StreamPosition
from wdsflow.training.sample_tasks import StreamKey, Task
from wdsflow.training.stalls.loss_tally import FeedLoss

from .losses import Losses
from .stream import Stream

# Opens a stream at a position, with the function that it calls with samples lost while listing, and
# with their round.
OpenStream: TypeAlias = Callable[
    [StreamKey, StreamPosition, Callable[[FeedLoss, int], None]], Stream
]


class FirstValid:
    """Searches an epoch from its beginning for samples that can be used.

    A rank gives them if all its own samples from some position on are lost. The order of the epoch
    alone decides which samples they are: they are the same on all ranks, and after any resume.

    ``samples``: those found so far. ``exhausted``: there are no others.

    Args:
        streams: all streams of the first round, in their order.
        open_stream: opens one of them.
        losses: counts the samples that cannot be used. They are not of this rank, so it must have a count of its own.
    """

    def __init__(
        self, streams: Iterable[StreamKey], open_stream: OpenStream, losses: Losses
    ) -> None:
        self.samples: list[Task] = []
        self.exhausted = False
        self._in_progress: Sequence[Task] | None = None
        self._tasks = _all_tasks(streams, open_stream)
        self._losses = losses

    def draw(self, count: int) -> list[Task]:
        """Return the next tasks; none while others are in progress, or if there are no more."""
        if self._in_progress is not None:
            return []
        tasks = list(islice(self._tasks, count))
        self.exhausted = not tasks
        self._in_progress = tasks or None
        return tasks

    def drew(self, tasks: Sequence[Task]) -> bool:
        """Return whether these are the tasks in progress."""
        return tasks is self._in_progress

    def take(self, tasks: Sequence[Task]) -> None:
        """Take the tasks that were drawn, with results. Raises StarvedError if too many samples were lost in a row."""
        self._in_progress = None
        for task in tasks:
            if isinstance(task.result, FeedLoss):
                self._losses.miss()
            else:
                self._losses.in_a_row = 0
                task.drop_content()
                self.samples.append(task)

    def close(self) -> None:
        """Let the open stream stop reading ahead."""
        self._tasks.close()


def _all_tasks(
    streams: Iterable[StreamKey], open_stream: OpenStream
) -> Generator[Task, None, None]:
    for key in streams:
        with closing(open_stream(key, StreamPosition(), _uncounted)) as stream:
            while (task := stream.next()) is not None:
                yield task


def _uncounted(loss: FeedLoss, round_: int) -> None:
    """Leave a lost sample to the rank that it belongs to."""
