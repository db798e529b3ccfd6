"""A forecast: the behaviour of one OpenCLIP version with one training command."""

from dataclasses import dataclass

from wdsflow.readers.open_clip.startup import CrashKind
from wdsflow.readers.open_clip.versions import EpochLength
from wdsflow.text.words import how_many

from .resources import Resources
from .worker_passes import WorkerPass


@dataclass(frozen=True, slots=True)
class Starved:
    """A worker that never fills a batch: its process hangs."""

    epoch: int
    # -1: all of them, if shards are drawn.
    rank: int
    worker: int
    # Samples in one pass over its shards.
    usable: int
    shards: int
    batch_size: int
    # False: the reader detects it, and ends with an error.
    hangs: bool = True

    def __str__(self) -> str:
        who = f"rank {self.rank} worker {self.worker}" if self.rank >= 0 else "every worker"
        has = f"{how_many(self.usable, 'usable sample')} in {how_many(self.shards, 'shard')}"
        ends = "training hangs" if self.hangs else "training would fail"
        return f"{who} gets 0 batches ({has}, batch size {self.batch_size}): {ends} at epoch {self.epoch}"


@dataclass(frozen=True, slots=True)
class Resampled:
    """The effect of drawing shards with replacement in one epoch, on average."""

    # Shards opened, over all workers.
    draws: float
    # Share of the shards with a weight that no worker draws.
    never_seen: float
    # Shards that can be drawn but have no usable sample.
    dead_shards: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """The behaviour of one OpenCLIP version with one training command."""

    reader: str
    shards: int = 0
    workers: int = 0
    world_size: int = 1
    batch_size: int = 64
    epochs: int = 0
    # False: the command does not read shards in a known way.
    applies: bool = True
    # The exception that ends the command before or in the first epochs.
    crash: str | None = None
    crash_kind: CrashKind = "other"
    # In the first epoch in which any worker starves.
    stalled: tuple[Starved, ...] = ()
    # Of each rank, in that epoch.
    batches_before_stall: int = 0
    epochs_checked: int = 0
    # False: the shards of a worker cannot be predicted.
    exact: bool = True
    length: EpochLength | None = None
    length_source: str = ""
    # Optimizer steps of one epoch.
    steps: int = 0
    accum_freq: int = 1
    warmup: int = 0
    # Samples in one pass over all workers' shards, epoch 0.
    usable: int = 0
    # Usable samples of each worker in epoch 0, rank by rank.
    shares: tuple[int, ...] = ()
    # Of epoch 0.
    poorest: WorkerPass | None = None
    richest: WorkerPass | None = None
    # Uses of a sample in epoch 0: of the worker with the fewest samples, with the most.
    seen: tuple[float, float] = (0.0, 0.0)
    # Samples that epoch 0 does not use, at least.
    unseen: int = 0
    resampled: Resampled | None = None
    resources: Resources | None = None
    # The problem with --val-data.
    validation: str | None = None
    validation_crash: bool = False
    notes: tuple[str, ...] = ()
    # A pattern of --train-data that OpenCLIP takes for the name of one shard.
    not_expanded: str = ""

    @property
    def total_steps(self) -> int:
        """Return the optimizer steps of the whole training."""
        return self.steps * self.epochs
