"""A step that is being made, and the streams that its samples come from."""

from collections import deque

from wdsflow.training.orders.order import OrderStep, StreamPosition
from wdsflow.training.sample_tasks import Task

from .stream import Stream


class PlannedStep:
    """A step, with its samples as they come."""

    def __init__(self, step: OrderStep) -> None:
        self.step = step
        self.size = step.size
        self.runs = [PlannedRun(run.samples) for run in step.runs]
        # Runs from the first one on that are complete: they stay so.
        self._complete_runs = 0

    @property
    def is_complete(self) -> bool:
        """Whether no more samples are to come."""
        while self._complete_runs < len(self.runs) and not self.runs[self._complete_runs].missing:
            self._complete_runs += 1
        return self._complete_runs == len(self.runs)

    @property
    def lost(self) -> int:
        """Lost samples that kept their slots, so far."""
        return sum(run.lost for run in self.runs)

    def samples(self) -> list[Task | None]:
        """Return the samples so far in batch order.

        None for a lost sample that keeps its slot.
        """
        return [task for run in self.runs for task in run.samples]

    def valid(self) -> list[Task]:
        """Return the samples so far."""
        return [task for task in self.samples() if task is not None]


class PlannedRun:
    """The samples of one run of a step, as they come.

    It does not know its step: in a circle of references, samples would keep their shared memory
    until the garbage collector comes.
    """

    def __init__(self, samples: int) -> None:
        self.expected = samples
        self.lost = 0
        self.samples: list[Task | None] = []

    @property
    def missing(self) -> int:
        """Samples that are still to come."""
        return self.expected - len(self.samples)

    def add(self, task: Task | None) -> None:
        """Add the next sample; None if it is lost and keeps its slot."""
        self.samples.append(task)
        if task is None:
            self.lost += 1

    def end(self) -> None:
        """Expect no more samples."""
        self.expected = len(self.samples)

    def clear(self) -> int:
        """Drop the samples so far; return how many they were."""
        dropped = len(self.samples)
        self.samples.clear()
        return dropped


class StreamInUse:
    """A stream, and the runs that its samples are for.

    ``runs``: those that still need samples, in the order of batches. ``in_progress``: tasks without
    results. ``begun``: it has been drawn from. ``ended``: it has no more tasks. ``closed``: no more
    tasks of it are needed. ``given_position``: after the last sample that is in a batch.

    Of a stream that begins again: ``round`` of the latest results, ``usable`` samples in this round
    so far, whether it is ``from_beginning``, rather than from the position of a loaded state, and
    whether the stream has ``starved``: a whole round has fewer samples than a batch.
    """

    def __init__(self, stream: Stream, position: StreamPosition) -> None:
        self.stream = stream
        self.runs: deque[PlannedRun] = deque()
        self.in_progress = 0
        self.begun = self.ended = self.closed = self.starved = False
        self.given_position = position
        self.round = position.round
        self.usable = 0
        self.from_beginning = position.number == 0

    def add(self, task: Task | None) -> None:
        """Add the next sample to the first run that needs one."""
        run = self.runs[0]
        run.add(task)
        if not run.missing:
            self.runs.popleft()

    def close(self) -> None:
        """Let it stop reading ahead."""
        self.stream.close()
        self.closed = True
