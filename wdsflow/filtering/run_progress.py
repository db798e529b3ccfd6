"""How far a run is while it works, measured on its own samples.

The lines and bars of the command line show it.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal, NamedTuple

from wdsflow.engines.base import Engine
from wdsflow.filtering.shard.shard_task import ShardTask
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import file_size

# Seconds between two looks at the workers.
_PAUSE = 0.25
# A few samples in a moment are no measurement: they include the start of decoders and models.
_LEAST_SECONDS = 3.0
_LEAST_SAMPLES = 10
# Seconds after which even one sample is one.
_LONG = 10.0


@dataclass(frozen=True)
class RunSoFar:
    """The progress of a pass over the shards that were not done before.

    Attributes:
        activity: "writing" or "measuring".
        shards: that it works on; ``done`` of them are finished.
        samples: that are scored.
        share: of the work that is done, from 0 to 1: of the bytes of the shards if all are files,
            otherwise of their number.
        elapsed: seconds since the pass began.
        scoring: seconds since its first sample began; 0 before.
        measured: the seconds of ``scoring`` that ``samples`` took: until the last of them was done.
        devices: of the models, such as "cpu" or "cuda:0"; none without models, and on a cluster.
        first: the first of the shards.
    """

    activity: str
    shards: int
    done: int
    samples: int
    share: float
    by: Literal["bytes", "shards"]
    elapsed: float
    scoring: float
    measured: float
    devices: tuple[str, ...]
    first: Shard

    @property
    def is_measured(self) -> bool:
        """Whether enough samples are done to say how long the others take."""
        enough = self.measured >= _LEAST_SECONDS and self.samples >= _LEAST_SAMPLES
        return self.share > 0 and self.samples > 0 and (enough or self.measured >= _LONG)

    @property
    def total(self) -> float | None:
        """The expected seconds of the whole pass; None if nothing is measured.

        They are right if the other samples are like those that are done.
        """
        return self.measured / self.share if self.is_measured else None

    @property
    def left(self) -> float | None:
        """The seconds until its end, as ``total``."""
        return None if self.total is None else max(0.0, self.total - self.scoring)


class _Finished(NamedTuple):
    """The shards that are finished. ``weight``: their bytes, or their number."""

    shards: int = 0
    samples: int = 0
    weight: int = 0


class _Measurement(NamedTuple):
    """The samples and the share of the work that were done after ``seconds`` of scoring."""

    samples: int = 0
    share: float = 0.0
    seconds: float = 0.0


class RunWatch:
    """Adds up the finished shards of a pass and the samples of those that are under way."""

    def __init__(
        self,
        engine: Engine[ShardTask],
        tasks: Sequence[ShardTask],
        activity: str,
        devices: Sequence[str],
    ) -> None:
        self._engine = engine
        self._activity = activity
        self._devices = tuple(devices)
        self._first = tasks[0].url
        sizes = {task.name: file_size(task.url) for task in tasks}
        has_sizes = all(sizes.values())
        self._by: Literal["bytes", "shards"] = "bytes" if has_sizes else "shards"
        self._weights = sizes if has_sizes else dict.fromkeys(sizes, 1)
        self._all_weights = sum(self._weights.values())
        self._finished = _Finished()
        self._began = time.monotonic()
        # The last time at which no sample had begun.
        self._idle = self._began
        self._scored_since: float | None = None
        self._last = _Measurement()
        # Samples and finished shards at that time.
        self._counted = 0, 0

    def add(self, task: ShardTask, samples: int) -> None:
        """Note that a shard is finished, or given up."""
        before = self._finished
        self._finished = _Finished(
            before.shards + 1, before.samples + samples, before.weight + self._weights[task.name]
        )

    def progress(self) -> RunSoFar:
        """Return how far the pass is now."""
        now = time.monotonic()
        finished = self._finished
        under_way = self._engine.under_way()
        if self._scored_since is None:
            # Of some engines only the end of shards is known.
            if finished.shards or under_way is None:
                self._scored_since = self._began
            elif under_way:
                self._scored_since = self._idle
        self._idle = now
        scoring = 0.0 if self._scored_since is None else now - self._scored_since

        samples = finished.samples
        weight = float(finished.weight)
        for task, progress in under_way or ():
            samples += progress.samples
            weight += progress.share * self._weights[task.name]
        # Otherwise a finished shard is on its way to ``add``.
        if (samples, finished.shards) > self._counted:
            self._counted = samples, finished.shards
            share = min(1.0, weight / self._all_weights)
            self._last = _Measurement(samples, share, scoring)
        return RunSoFar(
            activity=self._activity,
            shards=len(self._weights),
            done=finished.shards,
            samples=self._last.samples,
            share=self._last.share,
            by=self._by,
            elapsed=now - self._began,
            scoring=scoring,
            measured=self._last.seconds,
            devices=self._devices,
            first=self._first,
        )


@contextmanager
def progress_reported(watch: RunWatch, tell: Callable[[RunSoFar], object]) -> Iterator[None]:
    """Call a function with the progress, several times a second, until the block ends.

    A thread calls it.
    """
    ended = threading.Event()

    def run() -> None:
        # Standard error was closed.
        with suppress(OSError):
            while not ended.wait(_PAUSE):
                tell(watch.progress())

    thread = threading.Thread(target=run, name="wdsflow-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
