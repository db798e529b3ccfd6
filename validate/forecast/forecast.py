"""What a training command will do with the shards: its epochs, its workers, and whether it hangs.

The arithmetic is OpenCLIP's own (startup.py, versions.py); the forecast names what cannot be known
in advance.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from wdsflow.readers.base import Reader
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.startup import CrashKind, Sidecars, Start, not_expanded, start
from wdsflow.readers.open_clip.versions import EpochLength, FeedReader, OpenClip33, epoch_length
from wdsflow.scan.evidence import Evidence
from wdsflow.shards.source.base import named
from wdsflow.text.words import duration, how_many, size

from ..verdicts.wording import crash_text
from .resources import (
    Resources,
    ShardPasses,
    WorkerPass,
    certain,
    epochs_to_check,
    estimate,
    judge_validation,
    named_shards,
    unread,
    worker_passes,
)


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
        reader: open-clip-3.3 or open-clip-4.
        arguments: the training command.
        sidecars: files next to the shards.
        validation: the same for the shards of ``--val-data``, if they were scanned.
    """
    base = Forecast(
        reader.name,
        workers=arguments.workers,
        world_size=arguments.world_size,
        batch_size=arguments.batch_size,
        epochs=arguments.epochs,
        accum_freq=arguments.accum_freq,
        warmup=0 if arguments.skip_scheduler else arguments.warmup,
    )
    why_not = _foreign(arguments)
    if why_not or not isinstance(reader, OpenClip33) or not evidence.shards:
        return replace(
            base,
            applies=False,
            exact=False,
            notes=(why_not or "only OpenCLIP's loader is forecast",),
        )
    found = start(arguments, [shard.url for shard in evidence.shards], sidecars)
    ours = isinstance(reader, FeedReader)
    literal = "" if ours else next(iter(not_expanded(arguments.train_data)), "")
    base = replace(base, not_expanded=literal)
    listed, note, unknown = named_shards(found.urls, evidence, literally=bool(literal))
    # Not those that stand in for the shards of the command: how it opens its own is another
    # question.
    unreached = {url for url in map(named, found.urls or ()) if reader.unreached(url)}
    listed = [unread(shard.url) if shard.url in unreached else shard for shard in listed]
    notes = [note] if note else []
    base = replace(base, shards=len(listed))
    if found.crash is not None:
        return replace(base, crash=found.crash, crash_kind=found.crash_kind, notes=tuple(notes))
    assert found.samples is not None
    length = epoch_length(
        found.samples, arguments.batch_size, arguments.world_size, arguments.workers
    )
    base = replace(
        base,
        length=length,
        length_source=found.source,
        steps=length.batches // arguments.accum_freq,
    )
    wrong, ends = judge_validation(arguments, reader, validation)
    base = replace(base, validation=wrong, validation_crash=ends)
    shards = ShardPasses(reader, listed, unknown)
    if arguments.dataset_resampled:
        expected = _drawn(base, shards, arguments, found, length)
    else:
        expected = _dealt(base, shards, arguments, length)
    # It has no workers, shuffles in memory that it limits, and needs no /dev/shm.
    if ours:
        expected = replace(expected, resources=None)
    if arguments.seed < 0 and not arguments.dataset_resampled:
        notes.append(
            "with a negative --seed each worker shuffles the shards by a different seed: not exact"
        )
    elif evidence.level != "full" and not ours:
        # The check before training has no levels.
        notes.append("contents were not decoded: --level full makes the counts exact")
    return replace(
        expected, exact=expected.exact and evidence.level == "full" and not note, notes=tuple(notes)
    )


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
    return "--use-naflex plans its batches differently" if arguments.use_naflex else ""


def _dealt(
    base: Forecast, shards: ShardPasses, arguments: Arguments, length: EpochLength
) -> Forecast:
    """Follow every worker through the first epochs, until one starves or crashes."""
    passes = list(worker_passes(shards, arguments, 0))
    poorest, richest = (best(passes, key=lambda each: each.usable) for best in (min, max))
    # By each worker.
    used = length.worker_batches * arguments.batch_size
    shares = tuple(each.usable for each in passes)
    raw = [each.raw for each in passes]
    found = replace(
        base,
        exact=arguments.seed >= 0,
        usable=sum(shares),
        shares=shares,
        poorest=poorest,
        richest=richest,
        seen=(
            used / poorest.usable if poorest.usable else 0.0,
            used / richest.usable if richest.usable else 0.0,
        ),
        unseen=sum(max(0, share - used) for share in shares),
        resources=estimate(arguments, shards.reader, shards.shards, raw, sum(shares)),
    )
    for epoch in range(epochs_to_check(arguments.epochs, len(shards.shards))):
        passes = passes if epoch == 0 else list(worker_passes(shards, arguments, epoch))
        found = replace(found, epochs_checked=epoch + 1)
        crashed = next((each for each in passes if each.crash), None)
        if crashed is not None:
            where = f"epoch {epoch}, rank {crashed.rank}, worker {crashed.worker}"
            return replace(found, crash=f"{where}: {crashed.crash}")
        starved = tuple(
            Starved(
                epoch,
                each.rank,
                each.worker,
                each.usable,
                each.shards,
                base.batch_size,
                shards.reader.empty_stalls,
            )
            for each in passes
            if not each.batches and certain(shards, arguments, each)
        )
        if starved:
            # torch takes a batch from each worker in turn, and no rank can get ahead of the others.
            return replace(
                found, stalled=starved, batches_before_stall=min(each.worker for each in starved)
            )
    return found


def _drawn(
    base: Forecast, shards: ShardPasses, arguments: Arguments, found: Start, length: EpochLength
) -> Forecast:
    """Return averages for shards drawn with replacement, because the draws cannot be predicted."""
    weights = found.weights or (1.0,) * len(shards.shards)
    total = sum(weights)
    chances = [weight / total for weight in weights]
    drawable = [index for index, chance in enumerate(chances) if chance > 0]
    usable, formed = (
        [alone.usable for alone in shards.alone],
        [alone.formed for alone in shards.alone],
    )
    mean = sum(chance * each for chance, each in zip(chances, usable, strict=True))
    crash = next(
        (shards.alone[index].crash for index in drawable if shards.alone[index].crash), None
    )
    starved = Starved(0, -1, -1, 0, len(drawable), base.batch_size, shards.reader.empty_stalls)
    draws = length.samples / mean if mean else 0.0
    never = sum((1 - chances[index]) ** draws for index in drawable) / len(drawable)
    dead = sum(not usable[index] for index in drawable if index not in shards.unknown)
    raw, left = (sum(counts[index] for index in drawable) for counts in (formed, usable))
    return replace(
        base,
        exact=False,
        usable=left,
        crash=crash_text(crash.reason, crash.detail) if crash else None,
        stalled=(starved,) if not mean and not crash and not shards.unknown else (),
        resampled=Resampled(draws, never, dead),
        epochs_checked=arguments.epochs,
        resources=estimate(
            arguments, shards.reader, [shards.shards[index] for index in drawable], [raw], left
        ),
    )


# The source of the number of samples of an epoch, as a text.
_LENGTH_SOURCES = {
    "--train-num-samples": "requested (--train-num-samples)",
    "sizes.json": "listed in sizes.json",
    "__len__": "given in __len__",
}


def sentences(forecast: Forecast) -> list[str]:
    """Return the lines for people, the most severe first."""
    if not forecast.applies:
        return [f"No forecast: {note}." for note in forecast.notes]
    lines = [
        *_end(forecast),
        *([f"Validation: {forecast.validation}."] if forecast.validation else []),
    ]
    if forecast.length is not None:
        lines += [*_length(forecast), *_steps(forecast), *_shares(forecast), *_draws(forecast)]
    if forecast.resources is not None:
        lines += _resources(forecast, forecast.resources)
    return lines + [f"Note: {note}." for note in forecast.notes]


def as_dict(forecast: Forecast) -> dict[str, Any]:
    """Return everything as plain values for JSON."""
    return {**asdict(forecast), "total_steps": forecast.total_steps, "lines": sentences(forecast)}


def _end(forecast: Forecast) -> Iterator[str]:
    if forecast.crash is not None:
        yield f"Crashes: {forecast.crash}."
    elif forecast.stalled:
        more = len(forecast.stalled) - 1
        others = (
            f", and so do{'es' if more == 1 else ''} {how_many(more, 'other worker')}"
            if more
            else ""
        )
        batches = forecast.batches_before_stall
        after = f", after {how_many(batches, 'batch', 'batches')}" if batches else ""
        how = "Stalls" if forecast.stalled[0].hangs else "Fails"
        yield f"{how}: {forecast.stalled[0]}{after}{others}."
    elif forecast.resampled is None and forecast.epochs_checked:
        total = forecast.world_size * max(1, forecast.workers)
        who = "the only worker" if total == 1 else f"each of {how_many(total, 'worker')}"
        least = forecast.poorest.batches if forecast.poorest else 0
        yield (
            f"Runs: in {_epochs(forecast.epochs_checked)} {who} gets batches, "
            f"at least {least:,} from each pass over its shards in epoch 0."
        )


def _epochs(count: int) -> str:
    return "epoch 0" if count == 1 else f"epochs 0 to {count - 1:,}"


def _length(forecast: Forecast) -> Iterator[str]:
    length = forecast.length
    assert length is not None
    source = forecast.length_source
    line = (
        f"Epoch: {how_many(length.samples, 'sample')} for the {length.asked:,} {_LENGTH_SOURCES.get(source, source)}, "
        f"{how_many(length.batches, 'batch', 'batches')} per rank, {length.worker_batches:,} per worker"
    )
    if length.inflation > 1.01:
        line += (
            f"; rounding to whole batches and workers makes it {length.inflation:.2f} times as long"
        )
    yield line + "."


def _steps(forecast: Forecast) -> Iterator[str]:
    if not forecast.steps:
        assert forecast.length is not None
        yield (
            f"Steps: none. --accum-freq {forecast.accum_freq:,} is more than the "
            f"{how_many(forecast.length.batches, 'batch', 'batches')} of an epoch: the optimizer never steps, silently."
        )
        return
    line = f"Steps: {forecast.steps:,} per epoch, {forecast.total_steps:,} in {how_many(forecast.epochs, 'epoch')}"
    if forecast.warmup > forecast.total_steps:
        line += (
            f"; --warmup {forecast.warmup:,} is longer: the learning rate never reaches its target"
        )
    yield line + "."


def _shares(forecast: Forecast) -> Iterator[str]:
    poorest, richest = forecast.poorest, forecast.richest
    if poorest is None or richest is None or not poorest.usable:
        return
    least, most = f"{poorest.usable:,}", f"{richest.usable:,}"
    line = f"Shares: {least if least == most else f'{least} to {most}'} usable samples per worker in epoch 0"
    low, high = (f"{times:.2f}" for times in sorted(forecast.seen))
    line += f"; each is used {low if low == high else f'{low} to {high}'} times in it"
    if forecast.unseen:
        line += f", and at least {forecast.unseen:,} of {forecast.usable:,} not at all"
    yield line + "."


def _draws(forecast: Forecast) -> Iterator[str]:
    drawn = forecast.resampled
    if drawn is None or not drawn.draws:
        return
    line = f"Resampled: about {drawn.draws:,.0f} draws of a shard per epoch; {drawn.never_seen:.0%} of the shards are not drawn"
    if drawn.dead_shards:
        line += f"; {how_many(drawn.dead_shards, 'shard')} that can be drawn have no usable sample"
    yield line + " (averages: the draws cannot be predicted)."


def _resources(forecast: Forecast, needs: Resources) -> Iterator[str]:
    if needs.shuffle_bytes is not None:
        free = (
            "" if needs.available_bytes is None else f" ({size(needs.available_bytes)} free here)"
        )
        yield f"Memory: {size(needs.shuffle_bytes)} per machine for the shuffle buffers at their fullest{free}."
    if needs.shm_bytes:
        height, width = needs.image_size
        here = "" if needs.shm_total is None else f" (/dev/shm has {size(needs.shm_total)} here)"
        guess = "" if needs.image_size_known else ", assumed"
        yield f"Shared memory: {size(needs.shm_bytes)} per machine for batches of {height} x {width} pixels{guess}{here}."
    if needs.first_batch is not None and not forecast.stalled:
        fast, slow = needs.first_batch
        yield (
            f"First batch: after {_between(fast, slow)}; each worker first reads {how_many(needs.raw_before_first, 'sample')} "
            "(assumed: storage of 2 GB/s to 100 MB/s per machine, decoding 100 to 40 megapixels per second and core)."
        )


def _between(fast: float, slow: float) -> str:
    """Return a range of seconds, as far as an estimate goes.

    >>> _between(0.004, 0.09), _between(0.04, 3.21), _between(12.0, 400.0)
    ('less than a second', 'less than a second to 3.2 s', '12 s to 7 min')
    """
    if slow < 1:
        return "less than a second"
    return f"{duration(fast) if fast >= 1 else 'less than a second'} to {duration(slow)}"
