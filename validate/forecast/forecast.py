"""What a training command will do with the shards: its epochs, its workers, and whether it hangs.

The arithmetic is OpenCLIP's own (startup.py, versions.py); the forecast names what cannot be known
in advance.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from wdsflow.readers.base import Fate, Reader
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.sidecars import Sidecars
from wdsflow.readers.open_clip.startup import CrashKind, Start, start
from wdsflow.readers.open_clip.url_expansion import not_expanded
from wdsflow.readers.open_clip.versions import EpochLength, FeedReader, OpenClip33, epoch_length
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.shards.source.base import named
from wdsflow.text.words import how_many

from ..verdicts.wording import crash_text
from .named_shards import named_shards, unread
from .resources import Resources, estimate
from .validation_shards import judge_validation
from .worker_passes import ShardPasses, WorkerPass, certain, epochs_to_check, worker_passes


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


def forecast(
    evidence: Evidence,
    reader: Reader,
    arguments: Arguments,
    sidecars: Sidecars | None = None,
    *,
    validation: Evidence | None = None,
) -> Forecast:
    """Forecast what a training command will do with the shards.

    Args:
        evidence: evidence of the training shards, in the order of the urls.
        reader: OpenCLIP, or wdsflow's feed for its command; the forecast of any other does not apply.
        arguments: the training command.
        sidecars: files next to the shards.
        validation: the same for the shards of ``--val-data``, if they were scanned.
    """
    base = _settings(reader, arguments)
    foreign = _foreign(arguments)
    if foreign or not isinstance(reader, OpenClip33) or not evidence.shards:
        note = foreign or "only OpenCLIP's loader is forecast"
        return replace(base, applies=False, exact=False, notes=(note,))
    started = start(arguments, [shard.url for shard in evidence.shards], sidecars)
    is_feed = isinstance(reader, FeedReader)
    pattern = ""
    if not is_feed:
        # OpenCLIP takes such a pattern for the name of a shard.
        pattern = next(iter(not_expanded(arguments.train_data)), "")
    listed = named_shards(started.urls, evidence, literally=bool(pattern))
    shards = _as_opened(listed.shards, started.urls, reader)
    base = replace(base, not_expanded=pattern, shards=len(shards))
    notes = [listed.note] if listed.note else []
    if started.crash is not None:
        return replace(base, crash=started.crash, crash_kind=started.crash_kind, notes=tuple(notes))
    base, length = _with_length(base, arguments, started)
    problem, ends_training = judge_validation(arguments, reader, validation)
    base = replace(base, validation=problem, validation_crash=ends_training)
    passes = ShardPasses(reader, shards, listed.unknown)
    if arguments.dataset_resampled:
        expected = _drawn(base, passes, arguments, started, length)
    else:
        expected = _dealt(base, passes, arguments, length)
    if is_feed:
        # It has no workers, shuffles in memory that it limits, and needs no /dev/shm.
        expected = replace(expected, resources=None)
    inexact = _why_inexact(arguments, evidence, is_feed=is_feed)
    if inexact:
        notes.append(inexact)
    is_exact = expected.exact and evidence.level == "full" and not listed.note
    return replace(expected, exact=is_exact, notes=tuple(notes))


def _settings(reader: Reader, arguments: Arguments) -> Forecast:
    """Return a forecast with what the command alone says."""
    return Forecast(
        reader.name,
        workers=arguments.workers,
        world_size=arguments.world_size,
        batch_size=arguments.batch_size,
        epochs=arguments.epochs,
        accum_freq=arguments.accum_freq,
        warmup=0 if arguments.skip_scheduler else arguments.warmup,
    )


def _with_length(
    base: Forecast, arguments: Arguments, started: Start
) -> tuple[Forecast, EpochLength]:
    """Return a forecast with the length of an epoch, and that length."""
    assert started.samples is not None
    length = epoch_length(
        started.samples, arguments.batch_size, arguments.world_size, arguments.workers
    )
    steps = length.batches // arguments.accum_freq
    return replace(base, length=length, length_source=started.source, steps=steps), length


def _why_inexact(arguments: Arguments, evidence: Evidence, *, is_feed: bool) -> str:
    """Return a note on what makes a forecast inexact, and how to make it exact; "" if nothing is said."""
    if arguments.seed < 0 and not arguments.dataset_resampled:
        return (
            "with a negative --seed each worker shuffles the shards by a different seed: not exact"
        )
    # The check before training has no levels.
    if evidence.level != "full" and not is_feed:
        return "contents were not decoded: --level full makes the counts exact"
    return ""


def _as_opened(
    shards: Sequence[ShardEvidence], urls: Sequence[str] | None, reader: Reader
) -> list[ShardEvidence]:
    """Return the shards of a command as the reader opens them: some cannot be reached by it.

    Those that stand in for the shards of the command stay as they are: how it opens its own is
    another question.
    """
    unreached = {url for url in map(named, urls or ()) if reader.unreached(url)}
    return [unread(shard.url) if shard.url in unreached else shard for shard in shards]


def _foreign(arguments: Arguments) -> str:
    """Return why a command does not read shards in the known way, "" if it does."""
    kind = arguments.dataset_type
    if kind == "auto" and (arguments.train_data or "").split(".")[-1] in {"csv", "tsv"}:
        kind = "csv"
    if kind not in {"auto", "webdataset"}:
        return f"--dataset-type {kind} does not read image shards"
    if arguments.val_data and not arguments.train_data:
        return "without --train-data OpenCLIP only evaluates"
    if not arguments.epochs:
        return "--epochs 0 trains nothing"
    if arguments.use_naflex:
        return "--use-naflex plans its batches differently"
    return ""


def _dealt(
    base: Forecast, shards: ShardPasses, arguments: Arguments, length: EpochLength
) -> Forecast:
    """Follow every worker through the first epochs, until one starves or crashes."""
    passes = list(worker_passes(shards, arguments, 0))
    poorest = min(passes, key=attrgetter("usable"))
    richest = max(passes, key=attrgetter("usable"))
    # By each worker.
    used = length.worker_batches * arguments.batch_size
    shares = tuple(worker.usable for worker in passes)
    raw = [worker.raw for worker in passes]
    expected = replace(
        base,
        exact=arguments.seed >= 0,
        usable=sum(shares),
        shares=shares,
        poorest=poorest,
        richest=richest,
        seen=(_uses(used, poorest), _uses(used, richest)),
        unseen=sum(max(0, share - used) for share in shares),
        resources=estimate(arguments, shards.reader, shards.shards, raw, sum(shares)),
    )
    for epoch in range(epochs_to_check(arguments.epochs, len(shards.shards))):
        if epoch > 0:
            passes = list(worker_passes(shards, arguments, epoch))
        expected = replace(expected, epochs_checked=epoch + 1)
        for worker in passes:
            if worker.crash:
                location = f"epoch {epoch}, rank {worker.rank}, worker {worker.worker}"
                return replace(expected, crash=f"{location}: {worker.crash}")
        starved = _starved(shards, arguments, passes)
        if starved:
            # torch takes a batch from each worker in turn, and no rank can get ahead of the others.
            batches = min(worker.worker for worker in starved)
            return replace(expected, stalled=starved, batches_before_stall=batches)
    return expected


def _uses(used: int, worker: WorkerPass) -> float:
    """Return how often a worker uses each of its samples in an epoch; ``used``: samples that it gives."""
    return used / worker.usable if worker.usable else 0.0


def _starved(
    shards: ShardPasses, arguments: Arguments, passes: Sequence[WorkerPass]
) -> tuple[Starved, ...]:
    """Return the workers of an epoch that certainly never fill a batch."""
    starved = []
    for worker in passes:
        if worker.batches or not certain(shards, arguments, worker):
            continue
        starved.append(
            Starved(
                worker.epoch,
                worker.rank,
                worker.worker,
                worker.usable,
                worker.shards,
                arguments.batch_size,
                shards.reader.empty_stalls,
            )
        )
    return tuple(starved)


def _drawn(
    base: Forecast, shards: ShardPasses, arguments: Arguments, started: Start, length: EpochLength
) -> Forecast:
    """Return averages for shards drawn with replacement, because the draws cannot be predicted."""
    weights = started.weights or (1.0,) * len(shards.shards)
    total = sum(weights)
    chances = [weight / total for weight in weights]
    drawable = [index for index, chance in enumerate(chances) if chance > 0]

    # Usable samples of the shard that a draw gives, on average.
    mean = sum(chances[index] * shards.alone[index].usable for index in drawable)
    usable = 0
    raw = 0
    crash: Fate | None = None
    dead_shards = 0
    for index in drawable:
        alone = shards.alone[index]
        usable += alone.usable
        raw += alone.formed
        crash = crash or alone.crash
        dead_shards += not alone.usable and index not in shards.unknown
    draws = length.samples / mean if mean else 0.0
    never_drawn = sum((1 - chances[index]) ** draws for index in drawable) / len(drawable)

    stalled: tuple[Starved, ...] = ()
    if not mean and not crash and not shards.unknown:
        hangs = shards.reader.empty_stalls
        stalled = (Starved(0, -1, -1, 0, len(drawable), base.batch_size, hangs),)
    drawable_shards = [shards.shards[index] for index in drawable]
    return replace(
        base,
        exact=False,
        usable=usable,
        crash=crash_text(crash.reason, crash.detail) if crash else None,
        stalled=stalled,
        resampled=Resampled(draws, never_drawn, dead_shards),
        epochs_checked=arguments.epochs,
        resources=estimate(arguments, shards.reader, drawable_shards, [raw], usable),
    )
