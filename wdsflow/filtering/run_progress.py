"""How far a run is while it works: measured on its own samples, for the lines and bars of the command line."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

from wdsflow.engines.base import Engine
from wdsflow.filtering.shard.shard_task import ShardTask
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import file_size

# Seconds between two looks at the workers.
_PAUSE = 0.25
# A few samples in a moment are no measurement: they include the start of decoders and models.
_SECONDS, _SAMPLES = 3.0, 10
# Seconds after which even one sample is one.
_LONG = 10.0


@dataclass(frozen=True)
class RunSoFar:
    """The progress of a pass over the shards that were not done before.

    Attributes:
        activity: "writing" or "measuring".
        shards: that it works on; ``done`` of them are finished.
        samples: that are scored.
        share: of the work that is done, from 0 to 1: of the bytes of the shards if all are files, otherwise of their number.
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
        enough = self.measured >= _SECONDS and self.samples >= _SAMPLES
        return self.share > 0 and self.samples > 0 and (enough or self.measured >= _LONG)

    @property
    def total(self) -> float | None:
        """The seconds of the whole pass, if the other samples are like those that are done; None if nothing is measured."""
        return self.measured / self.share if self.is_measured else None

    @property
    def left(self) -> float | None:
        """The seconds until its end, as ``total``."""
        return None if self.total is None else max(0.0, self.total - self.scoring)


class RunWatch:
    """Adds up the finished shards of a pass and the samples of those that are under way."""

    def __init__(
        self,
        engine: Engine[ShardTask],
        tasks: Sequence[ShardTask],
        activity: str,
        devices: Sequence[str],
    ) -> None:
        self._engine, self._activity, self._devices = engine, activity, tuple(devices)
        sizes = {task.name: file_size(task.url) for task in tasks}
        self._by: Literal["bytes", "shards"] = "bytes" if all(sizes.values()) else "shards"
        self._weights = sizes if all(sizes.values()) else dict.fromkeys(sizes, 1)
        self._all, self._first = sum(self._weights.values()), tasks[0].url
        # Shards, samples, weight.
        self._finished = 0, 0, 0
        self._began = self._idle = time.monotonic()
        self._scored_since: float | None = None
        # Samples, shards.
        self._known = 0, 0
        # Samples, share, seconds that they took.
        self._last = 0, 0.0, 0.0

    def add(self, task: ShardTask, samples: int) -> None:
        """Note that a shard is finished, or given up."""
        shards, before, weight = self._finished
        self._finished = shards + 1, before + samples, weight + self._weights[task.name]

    def look(self) -> RunSoFar:
        """Return how far the pass is now."""
        now = time.monotonic()
        shards, samples, weight = self._finished
        under_way = self._engine.under_way()
        if self._scored_since is None:
            if shards or under_way is None:
                self._scored_since = self._began
            elif under_way:
                self._scored_since = self._idle
        self._idle = now
        share = float(weight)
        for task, progress in under_way or ():
            samples += progress.samples
            share += progress.share * self._weights[task.name]
        scoring = 0.0 if self._scored_since is None else now - self._scored_since
        # Not while a finished shard is on its way to ``add``.
        if (samples, shards) > self._known:
            self._known = samples, shards
            self._last = samples, min(1.0, share / self._all), scoring
        return RunSoFar(
            self._activity,
            len(self._weights),
            shards,
            self._last[0],
            self._last[1],
            self._by,
            now - self._began,
            scoring,
            self._last[2],
            self._devices,
            self._first,
        )


@contextmanager
def watching(watch: RunWatch, tell: Callable[[RunSoFar], object]) -> Iterator[None]:
    """Call a function with the progress, several times a second, from a thread, until the block ends."""
    ended = threading.Event()

    def run() -> None:
        # Standard error was closed.
        with suppress(OSError):
            while not ended.wait(_PAUSE):
                tell(watch.look())

    thread = threading.Thread(target=run, name="wdsflow-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
