"""Needs of a training command, what each worker and an evaluation gets, and settings that feed every worker."""

import importlib.util
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from wdsflow.readers.base import Reader
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.startup import openclip_urls, shard_urls
from wdsflow.readers.open_clip.versions import OpenClip33
from wdsflow.scan.evidence import Evidence, Runs, ShardEvidence
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import named
from wdsflow.shards.tar.members import Stop
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from ..verdicts.reader_pass import PassResult, run_pass
from ..verdicts.wording import crash_text, no_verdict_text, unreadable_text, why_unread

# Shards, over all checked epochs: some seconds at most.
_VISITS = 300_000
_EPOCHS_LEAST = 3


@dataclass(frozen=True, slots=True)
class WorkerPass:
    """The samples of one worker in one pass over its shards of one epoch."""

    epoch: int
    rank: int
    worker: int
    shards: int
    # Samples as it forms them; these go through the shuffle buffer.
    raw: int
    usable: int
    # Full batches; training drops the rest of every pass.
    batches: int
    crash: str | None = None
    # Shards that were not scanned.
    unknown: int = 0


class ShardPasses:
    """The shards of a training command, each with the result of a pass over it alone.

    A pass over several is their sum, unless a sample continues in the next shard: then it is walked
    in full.
    """

    def __init__(
        self,
        reader: OpenClip33,
        shards: Sequence[ShardEvidence],
        unknown: frozenset[int] = frozenset(),
    ) -> None:
        self.reader = reader
        self.shards = shards
        # Indices of shards that may hold samples but were not scanned.
        self.unknown = unknown
        self.alone = [run_pass(reader, [shard]) for shard in shards]
        runs = [reader.runs(shard) if reader.opens(shard) else Runs() for shard in shards]
        self.heads = [each.head.key if each.head else None for each in runs]
        self.tails = [each.last.key if each.last else None for each in runs]

    def over(self, indices: Sequence[int]) -> PassResult:
        """Return the result of one pass over these shards, in this order."""
        # Key of the open sample: OpenCLIP does not mark the end of a shard.
        tail: str | None = None
        for index in indices:
            head = self.heads[index]
            if self.alone[index].crash is not None or (head is not None and head == tail):
                return run_pass(self.reader, [self.shards[index] for index in indices])
            if head is not None:
                tail = self.tails[index]
        total = PassResult()
        total.formed = sum(self.alone[index].formed for index in indices)
        total.usable = sum(self.alone[index].usable for index in indices)
        return total


class NamedShards(NamedTuple):
    """The shards of a training command, as OpenCLIP lists them."""

    shards: list[ShardEvidence]
    # Set if they differ from the scanned ones.
    note: str = ""
    # Indices of shards that may exist but were not scanned.
    unknown: frozenset[int] = frozenset()


def named_shards(
    urls: Sequence[str] | None, evidence: Evidence, *, literally: bool = False
) -> NamedShards:
    """Return the shards that a training command names; those that were not scanned count as empty.

    If none of them was scanned, they may be on another machine, and the given shards stand in for
    them; not so ``literally``, where OpenCLIP takes a pattern for a name.
    """
    if urls is None:
        return NamedShards(list(evidence.shards))
    known = {_plain(shard.url): shard for shard in evidence.shards}
    locations = list(map(named, urls))
    found = [known.get(_plain(url)) for url in locations]
    if found.count(None) == len(found) and not literally:
        note = "none of the shards of --train-data was scanned: the given shards were used instead"
        return NamedShards(list(evidence.shards), note)
    pairs = list(zip(locations, found, strict=True))
    shards = [shard or unread(url) for url, shard in pairs]
    # OpenCLIP may find these; for servers and commands this is not known.
    unknown = frozenset(
        place
        for place, (url, shard) in enumerate(pairs)
        if shard is None and (url.path is None or os.path.isfile(url.path))
    )
    what = f"{len(unknown):,} shard{'s' if len(unknown) > 1 else ''} of --train-data"
    note = f"{what} not scanned: their samples are not counted"
    return NamedShards(shards, note if unknown else "", unknown)


def unread(url: Shard) -> ShardEvidence:
    """Return the evidence of a shard that a reader cannot open."""
    return ShardEvidence(url, error="missing", stop=Stop("unreadable"))


def epochs_to_check(epochs: int, n_shards: int) -> int:
    """Return how many epochs, from the first on, are worth computing: all if the shards are few."""
    return max(1, min(epochs, max(_EPOCHS_LEAST, _VISITS // max(1, n_shards))))


def orders(reader: OpenClip33, count: int, arguments: Arguments, epoch: int) -> list[list[int]]:
    """Return the indices of each worker's shards in one epoch, rank by rank, without resampling.

    With a negative seed every worker shuffles by a different seed: then only the number of shards
    is right.
    """
    return reader.assigned(range(count), replace(arguments.options(reader.name), epoch=epoch))


def worker_passes(shards: ShardPasses, arguments: Arguments, epoch: int) -> Iterator[WorkerPass]:
    """Yield the samples of each worker in one epoch, rank by rank."""
    split = max(1, arguments.workers)
    for number, indices in enumerate(orders(shards.reader, len(shards.shards), arguments, epoch)):
        result = shards.over(indices)
        crash = (
            None if result.crash is None else crash_text(result.crash.reason, result.crash.detail)
        )
        yield WorkerPass(
            epoch,
            rank=number // split,
            worker=number % split,
            shards=len(indices),
            raw=result.formed,
            usable=result.usable,
            batches=result.usable // arguments.batch_size,
            crash=crash,
            unknown=sum(index in shards.unknown for index in indices),
        )


def certain(shards: ShardPasses, arguments: Arguments, starved: WorkerPass) -> bool:
    """Return whether a worker certainly starves.

    It is not certain if the worker has shards that were not scanned; with a negative seed, only if
    even the best shards do not suffice.
    """
    if starved.unknown:
        return False
    if arguments.seed >= 0:
        return True
    best = sorted((alone.usable for alone in shards.alone), reverse=True)
    return sum(best[: starved.shards]) < arguments.batch_size


def least_usable(shards: ShardPasses, arguments: Arguments, epochs: int) -> int:
    """Return the smallest number of usable samples that a worker has in one pass of these epochs."""
    return min(
        each.usable for epoch in range(epochs) for each in worker_passes(shards, arguments, epoch)
    )


def _plain(url: Shard) -> Shard:
    return url if url.path is None else Shard.file(os.path.normpath(url.path))


# How --model names a folder with a config.
_LOCAL = "local-dir:"
# Batches that torch keeps ready for each worker.
_PREFETCH = 2

# Assumptions for the time to the first batch, fast end and slow end: storage of one machine in
# bytes per second; Pillow's time for one image in seconds, plus megapixels per second on one core,
# with resizing.
_STORAGE = (2e9, 1e8)
_IMAGE = (0.0003, 0.0015)
_PIXELS = (1e8, 4e7)


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of one machine. ``None``: not known at this level."""

    # Contents of all shuffle buffers at their fullest.
    shuffle_bytes: int | None
    # Memory free on this machine.
    available_bytes: int | None
    # For batches on their way to the training process.
    shm_bytes: int
    # Size of /dev/shm here.
    shm_total: int | None
    # Height, width.
    image_size: tuple[int, int]
    # False: 224 was assumed.
    image_size_known: bool
    # Samples that a worker reads before its first batch.
    raw_before_first: int
    # Seconds, fast and slow end.
    first_batch: tuple[float, float] | None


def estimate(
    arguments: Arguments,
    reader: OpenClip33,
    shards: Sequence[ShardEvidence],
    raw: Sequence[int],
    usable: int,
) -> Resources:
    """Return the resources that one machine needs.

    Args:
        arguments: the training command.
        reader: reader whose loader is used.
        shards: all shards.
        raw: samples in the shards of each worker, rank by rank; one entry, the sum, if shards are drawn.
        usable: number of samples in ``shards`` that reach a batch.
    """
    buffer = reader.buffers()
    size, initial = buffer.samples, buffer.samples_initial
    total, contents = sum(raw), sum(shard.member_bytes for shard in shards)
    mean = contents / total if total and contents else None
    split = max(1, arguments.workers)
    local = arguments.local_world_size * split
    if arguments.dataset_resampled:
        buffers = size * local
        most_raw: float = float("inf")
    else:
        machines = [raw[start : start + local] for start in range(0, len(raw), local)]
        buffers = max(
            (sum(fullest(each, size, initial) for each in machine) for machine in machines),
            default=0,
        )
        most_raw = max(raw, default=0)
    height, width, known = image_size(arguments)
    free, shared = _free_memory()
    batch = arguments.batch_size * (
        3 * height * width * 4 + (arguments.force_context_length or 77) * 8
    )
    # Samples that contain this many usable ones.
    wanted = arguments.batch_size * total / usable if usable else 0.0
    reads = int(min(most_raw, initial + 2 * wanted))
    return Resources(
        shuffle_bytes=None if mean is None else round(buffers * mean),
        available_bytes=free,
        shm_bytes=_PREFETCH * arguments.workers * arguments.local_world_size * batch,
        shm_total=shared,
        image_size=(height, width),
        image_size_known=known,
        raw_before_first=reads,
        first_batch=None if mean is None else _first_batch(arguments, shards, reads * mean, local),
    )


def fullest(samples: int, size: int, initial: int) -> int:
    """Return how full a shuffle buffer gets over a number of samples: from ``initial`` on, it takes two per sample yielded.

    >>> [fullest(n, 5000, 1000) for n in (10, 1000, 3000, 100_000)]
    [10, 1000, 2000, 5000]
    """
    initial = min(initial, size)
    return min(size, samples if samples <= initial else initial + (samples - initial) // 2)


def image_size(arguments: Arguments) -> tuple[int, int, bool]:
    """Return height and width of the model's input, and whether they are known (not assumed)."""
    size: object = arguments.force_image_size or _model_config(arguments.model).get("image_size")
    sides = (
        [size] if isinstance(size, int) else list(size) if isinstance(size, list | tuple) else []
    )
    if not sides or not all(isinstance(side, int) and side > 0 for side in sides):
        return 224, 224, False
    return sides[0], sides[-1], True


def _model_config(model: str) -> Mapping[str, object]:
    """Read a model's vision config, as open_clip finds it in its own files or in a local folder, without importing it."""
    local, name = model.startswith(_LOCAL), model.replace("/", "-")
    path = Path(model.removeprefix(_LOCAL), "open_clip_config.json")
    if not local:
        spec = importlib.util.find_spec("open_clip")
        if (
            spec is None
            or spec.origin is None
            or not name.replace("-", "").replace("_", "").replace(".", "").isalnum()
        ):
            return {}
        path = Path(spec.origin).parent / "model_configs" / f"{name}.json"
    try:
        config = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    config = config.get("model_cfg") if local and isinstance(config, dict) else config
    part = config.get("vision_cfg") if isinstance(config, dict) else None
    return part if isinstance(part, dict) else {}


def _first_batch(
    arguments: Arguments, shards: Sequence[ShardEvidence], contents: float, local: int
) -> tuple[float, float]:
    images = sum(shard.images.count for shard in shards)
    pixels = sum(shard.images.pixels for shard in shards) / images if images else 0.0
    crowd = max(1.0, local / (os.cpu_count() or 1))
    fast, slow = (
        contents * local / storage + arguments.batch_size * crowd * (each + pixels / rate)
        for storage, each, rate in zip(_STORAGE, _IMAGE, _PIXELS, strict=True)
    )
    return fast, slow


def _free_memory() -> tuple[int | None, int | None]:
    """Return the free memory of this machine and the size of its /dev/shm, in bytes; None if not known."""
    from wdsflow.memory.bounds import host_memory

    memory = shared = None
    with suppress(OSError, RuntimeError):
        memory = host_memory().free
    with suppress(OSError):
        shared = shutil.disk_usage("/dev/shm").total  # noqa: S108 - only its size
    return memory, shared


_MOST_URLS = 100_000


def judge_validation(
    arguments: Arguments, reader: OpenClip33, evidence: Evidence | None
) -> tuple[str | None, bool]:
    """Return the problem with the validation shards, None without one, and whether it ends the training.

    Only rank 0 reads them, each worker its share; an empty share just ends. If no sample arrives at
    all, 3.3.0 raises from ``torch.cat([])`` after the first epoch while the other ranks wait; 4.x
    reports no figures. Shards that cannot be read are passed over.
    """
    if not arguments.val_data or arguments.val_frequency <= 0:
        return None, False
    if evidence is None:
        why, usable = _all_missing(arguments.val_data), 0
    else:
        split = max(1, arguments.workers)
        usable = sum(
            run_pass(reader, evidence.shards[worker::split]).usable for worker in range(split)
        )
        why = _partly_missing(evidence, usable) if usable else _without_samples(evidence)
    if not why:
        return None, False
    if usable:
        return f"{why}: the figures are those of the rest, silently", False
    if reader.name == "open-clip-4":
        return f"{why}: evaluation reports no figures, silently", False
    wait = " while the other ranks wait" if arguments.world_size > 1 else ""
    return (
        f"{why}: rank 0 crashes after epoch {min(arguments.val_frequency, arguments.epochs) - 1} (torch.cat of nothing){wait}",
        True,
    )


def _partly_missing(evidence: Evidence, usable: int) -> str:
    """Return which part of the validation shards is not evaluated; "" if that is all of them."""
    unread = [shard for shard in evidence.shards if shard.error is not None]
    if unread:
        number = f"{len(unread):,} of {how_many(len(evidence.shards), 'shard')} of --val-data"
        return f"{number} cannot be read ({why_unread(unread[0])})"
    lost = evidence.samples - usable
    if lost > _MOST_LOST * evidence.samples:
        return f"{lost:,} of {how_many(evidence.samples, 'sample')} of --val-data are not usable"
    return ""


def _without_samples(evidence: Evidence) -> str:
    if nothing := no_verdict_text(evidence.shards):
        return f"--val-data: {nothing}"
    if not evidence.samples:
        first = next(shard for shard in evidence.shards if not shard.is_whole)
        return (
            f"--val-data: no sample in {escape(first.url, 1_000)}: {escape(first.stop.detail, 300)}"
        )
    return f"none of the {evidence.samples:,} samples of --val-data is usable"


def _all_missing(val_data: str) -> str:
    try:
        urls = list(islice(openclip_urls(val_data), _MOST_URLS))
    except (KeyError, ValueError):
        return "--val-data cannot be expanded"
    if any(":" in url or os.path.isfile(url) for url in urls):
        return ""
    missing = [ShardEvidence(named(url), error="missing") for url in urls]
    return f"--val-data: {unreadable_text(missing)}"


# Share of the validation samples.
_MOST_LOST = 0.05
_TRIES = 32
# Of the requested batch: a much smaller one trains another model.
_LEAST_BATCH = 0.5


def working_settings(
    evidence: Evidence, reader: Reader, arguments: Arguments, usable: int
) -> Iterator[tuple[str, ...]]:
    """Yield flags with which every worker gets batches in every epoch, the one that changes the training least first.

    Fewer workers train the same model: the largest number that starves none. A much smaller batch
    would train another one: the largest that every worker can fill, if it is at least half of the
    requested one. Last, drawing from all shards; ``usable`` samples must fill a batch. A set that
    is smaller than a batch has one worker, and a batch of its size.
    """
    if arguments.dataset_resampled:
        return
    if isinstance(reader, OpenClip33) and arguments.seed >= 0:
        named = named_shards(shard_urls(arguments), evidence)
        if named.shards and not named.unknown:
            passes = ShardPasses(reader, named.shards)
            yield from _fewer(passes, arguments)
            if 0 < usable < arguments.batch_size:
                yield from _smaller(passes, arguments)
    if usable >= arguments.batch_size:
        yield ("--dataset-resampled",)


def _smaller(shards: ShardPasses, arguments: Arguments) -> Iterator[tuple[str, ...]]:
    if len(shards.shards) < arguments.world_size:
        return
    alone = replace(arguments, workers=1)
    least = least_usable(shards, alone, epochs_to_check(arguments.epochs, len(shards.shards)))
    if least:
        yield "--workers", "1", "--batch-size", str(least)


def _fewer(shards: ShardPasses, arguments: Arguments) -> Iterator[tuple[str, ...]]:
    number, ranks, requested = len(shards.shards), arguments.world_size, arguments.batch_size
    epochs = epochs_to_check(arguments.epochs, number)
    most = min(arguments.workers - 1, number // ranks)
    trials = (
        replace(arguments, workers=workers) for workers in range(most, max(0, most - _TRIES), -1)
    )
    working = next(
        (trial.workers for trial in trials if least_usable(shards, trial, epochs) >= requested),
        None,
    )
    if working is not None:
        yield "--workers", str(working)
    least = least_usable(shards, arguments, epochs) if number >= arguments.workers * ranks else 0
    if _LEAST_BATCH * requested <= least < requested:
        yield "--batch-size", str(least)
