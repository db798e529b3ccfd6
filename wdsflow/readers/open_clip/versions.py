"""OpenCLIP 3.3, OpenCLIP 4 and wdsflow's feed, as readers.

Also computes the shards of each rank and worker, in order.

The arithmetic and the seeds are those of open_clip_train/data.py: detshuffle2 (with
webdataset.filters._shuffle), split_by_node, split_by_worker, ResampledShards2, pytorch_worker_seed,
and the rounding in get_wds_dataset.
"""

import math
import os
import random
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import ModuleType
from typing import Any, TypeVar

from wdsflow.readers.base import (
    MARKED_BAD,
    USABLE,
    Fate,
    Options,
    Reader,
    Sample,
    fate_of_incomplete,
    first_of,
    is_marked_bad,
    split_at_repeats,
    split_names,
)
from wdsflow.readers.url_schemes import why_not_opened_by_webdataset_02
from wdsflow.readers.wanted_fields import (
    IMAGE_TROUBLE,
    IMAGES,
    OTHERS,
    PICKLES,
    TEXTS,
    decoding_raises,
    reason_for,
)
from wdsflow.scan.evidence import ScanOptions, ShardEvidence
from wdsflow.scan.shapes import Part, Shape
from wdsflow.scan.statuses import BAD, BIG, BIG_BAD, BLANK, EMPTY, NO_CAPTION, NOT_UTF8
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import IMAGE_FIELDS

T = TypeVar("T")

# webdataset's seeds of ranks are this far apart.
_RANK_SEED = 1000

_TEXT_KEY = "txt"
_DECODED = IMAGES | TEXTS | OTHERS | PICKLES

_JSON = "json"

# Why the feed does not take a caption, by the status of its member: the words of the feed itself.
_EMPTY_CAPTION = "empty-caption"
_UNUSABLE_CAPTIONS = {
    EMPTY: _EMPTY_CAPTION,
    BLANK: _EMPTY_CAPTION,
    NOT_UTF8: "not-text",
    BAD: "bad-json",
    NO_CAPTION: "no-caption",
}


@dataclass(frozen=True)
class Buffers:
    """Sizes of the shuffle buffers.

    ``..._initial``: how far a buffer is filled before the first item leaves. The defaults are
    OpenCLIP's.
    """

    shards: int = 2000
    shards_initial: int = 500
    samples: int = 5000
    samples_initial: int = 1000

    @classmethod
    def from_environment(cls) -> "Buffers":
        """Return the sizes in OpenCLIP 4's environment variables, or its defaults.

        Raises ValueError as OpenCLIP does.
        """
        names = (
            "SHARD_SHUFFLE_SIZE",
            "SHARD_SHUFFLE_INITIAL",
            "SAMPLE_SHUFFLE_SIZE",
            "SAMPLE_SHUFFLE_INITIAL",
        )
        usual = (cls.shards, cls.shards_initial, cls.samples, cls.samples_initial)
        return cls(
            *(
                int(os.environ.get(f"OPENCLIP_WDS_{name}", each))
                for name, each in zip(names, usual, strict=True)
            )
        )


@dataclass(frozen=True, slots=True)
class EpochLength:
    """The length of an epoch after OpenCLIP has rounded it.

    It rounds twice: to whole batches, and to whole workers.
    """

    # Samples.
    requested: int | float
    # Batches that each worker gives in one epoch.
    worker_batches: int
    # Of one rank in one epoch.
    batches: int
    # Of all ranks in one epoch.
    samples: int

    @property
    def inflation(self) -> float:
        """Return how many times longer the epoch is than requested."""
        return self.samples / self.requested if self.requested else math.inf


def epoch_length(
    samples: float, batch_size: int, world_size: int, workers: int, *, floor: bool = False
) -> EpochLength:
    """Round as get_wds_dataset does: up, unless ``floor`` is given.

    >>> epoch_length(1000, batch_size=256, world_size=1, workers=8)
    EpochLength(requested=1000, worker_batches=1, batches=8, samples=2048)
    """
    rounded = math.floor if floor else math.ceil
    whole = batch_size * world_size
    split = max(1, workers)
    worker_batches = rounded(rounded(samples / whole) / split)
    return EpochLength(
        samples, worker_batches, worker_batches * split, worker_batches * split * whole
    )


def shuffled(items: Sequence[T], size: int, initial: int, rng: random.Random) -> Iterator[T]:
    """Yield items through a shuffle buffer that fills two at a time, as webdataset's does.

    >>> sorted(shuffled(range(5), 3, 2, random.Random(0)))
    [0, 1, 2, 3, 4]
    """
    arriving = iter(items)
    waiting: list[T] = []
    enough = min(initial, size)
    for item in arriving:
        waiting.append(item)
        if len(waiting) < size:
            waiting.extend(islice(arriving, 1))
        if len(waiting) >= enough:
            yield pop_random(waiting, rng)
    while waiting:
        yield pop_random(waiting, rng)


def pop_random(waiting: list[T], rng: random.Random) -> T:
    """Remove a random item and return it."""
    index = rng.randint(0, len(waiting) - 1)
    waiting[index], waiting[-1] = waiting[-1], waiting[index]
    return waiting.pop()


def epoch_order(items: Sequence[T], seed: int, buffers: Buffers) -> Iterator[T]:
    """Yield shards in the order of an epoch with this seed (``--seed`` and the epoch added up)."""
    return shuffled(items, buffers.shards, buffers.shards_initial, random.Random(seed))


def worker_share(
    items: Iterator[T], rank: int, world_size: int, worker: int, workers: int
) -> Iterator[T]:
    """Yield the shards of one worker.

    Shards are dealt out to ranks in turn, then to each rank's workers.
    """
    return islice(islice(items, rank, None, max(1, world_size)), worker, None, max(1, workers))


def split_among_workers(items: Sequence[T], world_size: int, workers: int) -> list[list[T]]:
    """Return the shards of all workers, rank by rank, worker by worker.

    >>> split_among_workers("abcdef", 2, 2)
    [['a', 'e'], ['c'], ['b', 'f'], ['d']]
    """
    return [
        list(worker_share(iter(items), rank, world_size, worker, workers))
        for rank in range(max(1, world_size))
        for worker in range(max(1, workers))
    ]


def resampled(items: Sequence[T], weights: Sequence[float] | None, seed: int) -> Iterator[T]:
    """Yield shards drawn with replacement, without end: ``--dataset-resampled``."""
    rng = random.Random(seed)
    while True:
        yield rng.choice(items) if weights is None else rng.choices(items, weights=weights, k=1)[0]


def worker_seed(base_seed: int, epoch: int, rank: int, worker: int, workers: int) -> int:
    """Return the seed of a worker.

    The DataLoader draws ``base_seed`` when the first epoch begins.
    """
    if not workers:
        return rank * _RANK_SEED
    return base_seed + worker + epoch * workers


@dataclass(frozen=True)
class Loop:
    """One call of ``train_one_epoch``, regardless of the names of its arguments in this version."""

    # open_clip_train.main.
    module: ModuleType
    # By name.
    arguments: dict[str, Any]

    @property
    def args(self) -> Namespace:
        """The parsed command line."""
        found: Namespace = self.arguments["args"]
        return found

    @property
    def epoch(self) -> int:
        """The epoch, counted from 0: the number of completed epochs."""
        state = self.arguments.get("state")
        return int(self.arguments["epoch"] if state is None else state.epoch)

    def checkpoint(self) -> dict[str, object] | None:
        """Return the checkpoint that OpenCLIP would save now; None on ranks that save none.

        With FSDP, all ranks must call it.
        """
        state, args = self.arguments.get("state"), self.args
        if state is not None:
            if not (args.save_logs or getattr(args, "fsdp", False)):
                return None
            found: dict[str, object] = self.module.save_checkpoint(
                state.task,
                state.optimizer,
                epoch=state.epoch,
                scaler=state.scaler,
                name=args.name,
                global_step=state.global_step,
                samples_seen=state.samples_seen,
            )
            return found if args.save_logs else None
        if not args.save_logs:
            return None
        model, scaler = self.arguments["model"], self.arguments["scaler"]
        found = {
            "epoch": self.epoch,
            "name": args.name,
            # The names in the state of a compiled model
            # have a prefix; OpenCLIP saves the one inside.
            "state_dict": getattr(model, "_orig_mod", model).state_dict(),
            "optimizer": self.arguments["optimizer"].state_dict(),
        }
        return found if scaler is None else {**found, "scaler": scaler.state_dict()}


def saves_at(args: Namespace, completed: int) -> bool:
    """Return whether OpenCLIP itself writes a checkpoint after so many epochs."""
    regular = args.save_frequency > 0 and completed % args.save_frequency == 0
    return bool(completed == args.epochs or regular or args.save_most_recent)


def why_no_checkpoints(args: Namespace) -> str:
    """Return why these arguments prevent checkpoints inside epochs, "" if they do not."""
    if not args.logs or args.logs.lower() == "none":
        return "with --logs none OpenCLIP keeps no checkpoints"
    if getattr(args, "horovod", False):
        return "not with --horovod"
    if getattr(args, "fsdp", False) and getattr(args, "fsdp_checkpoint", "") == "sharded":
        return "not with --fsdp-checkpoint sharded"
    return ""


class OpenClip33(Reader):
    """OpenCLIP 3.3.0's training pipeline on webdataset 0.2.86 or older.

    It keeps samples that have ``txt`` and one of jpg, png, jpeg, webp, then decodes *every* field:
    any field that does not decode drops the sample. It drops silently, raises for nothing that a
    shard can hold, and starts over endlessly where nothing passes. Nothing marks the end of a
    shard, so an open sample continues in the next one.

    Cannot be known here: what a pickled field does (taken as valid); with a negative ``--seed``
    each worker shuffles by a seed of its own (the given order is assumed); ``--dataset-resampled``
    draws shards (one pass over all is judged).

    Source: open_clip_train/data.py 3.3.0, get_wds_dataset.
    """

    name = "open-clip-3.3"
    title = "OpenCLIP 3.3.0 (webdataset <= 0.2.86)"
    runs_training_command = True
    takes_one_pair = True
    empty_evaluation_raises = True
    empty_stalls = True
    # Its handler logs the error and continues with the next shard.
    raises = False
    # webdataset up to 0.2.88.
    joins = True

    def why_not_opened(self, url: Shard) -> str:
        """Return why webdataset 0.2 has no handler for a url."""
        return why_not_opened_by_webdataset_02(url)

    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        """Return the fate of each sample that the run is cut into; none of them is a crash."""
        fates: list[Fate] = []
        for sample in split_at_repeats(shape):
            if is_marked_bad(sample):
                fates.append(MARKED_BAD)
            else:
                fates.append(self.fate(sample))
        return tuple(fates)

    def fate(self, sample: Sample) -> Fate:
        """Return the fate of one sample after the grouping stage."""
        image, caption = first_of(IMAGE_FIELDS, sample), sample.get(_TEXT_KEY)
        if image is None or caption is None:
            return fate_of_incomplete(image, caption)
        for part in sample.values():
            if not part.suffix.startswith("__") and decoding_raises(part, _DECODED):
                return Fate("dropped", "decode", reason_for(part, image, _TEXT_KEY), part.suffix)
        return USABLE

    def buffers(self) -> Buffers:
        """Return the sizes of the shuffle buffers."""
        return Buffers()

    def order(self, shards: Sequence[ShardEvidence]) -> list[list[ShardEvidence]]:
        """Return each worker's shards in the order of ``options.epoch``.

        If shards are resampled, all are in one list.
        """
        return (
            [list(shards)] if self.options.resampled else self.items_by_worker(shards, self.options)
        )

    def items_by_worker(self, items: Sequence[T], options: Options) -> list[list[T]]:
        """Return each worker's items, rank by rank, in the order of ``options.epoch``.

        With a negative seed each worker shuffles by a seed of its own: the given order is assumed.
        """
        seed = options.seed + options.epoch
        mixed = items if options.seed < 0 else list(epoch_order(items, seed, self.buffers()))
        return split_among_workers(mixed, options.world_size, options.workers)


class OpenClip4(OpenClip33):
    """OpenCLIP 4's training pipeline: it decodes only the chosen image and the chosen caption.

    The image is the first of ``--image-key``, the caption the first of ``--text-key``, or a string
    in ``json`` with ``--json-text-key``. Captions of white space only are dropped, images over
    ``--max-image-pixels`` too. Grouping, order of shards, silence and the endless loop are those of
    3.3.0.

    Cannot be known here: with ``--max-image-pixels 0`` it decodes up to 256 megapixels, while the
    scan calls what is beyond Pillow's own limit of 178 a bomb. With ``--json-text-key-probs`` every
    named key can serve, so that a sample is usable if one of them holds a caption.

    Source: open_clip_train/data.py of 2026-06-27 (4.2.0.dev0), get_wds_dataset.
    """

    name = "open-clip-4"
    title = "OpenCLIP 4 (main branch; webdataset <= 0.2.86)"
    takes_field_flags = True
    empty_evaluation_raises = False

    def scan_options(self, options: ScanOptions) -> ScanOptions:
        """Return the options of a scan with the fields and the limit of this reader's flags."""
        flags = self.options
        # With a name in json, no other caption is read.
        text_key = "" if flags.json_text_key else flags.text_key
        return replace(
            options,
            json_text_key=split_names(flags.json_text_key),
            max_image_pixels=flags.max_image_pixels,
            text_key=split_names(text_key),
            image_key=split_names(flags.image_key),
        )

    def fate(self, sample: Sample) -> Fate:
        """Return the fate of one sample after the grouping stage."""
        options = self.options
        image_key = options.image_key
        text_key = _JSON if options.json_text_key else options.text_key
        image = first_of(split_names(image_key), sample)
        caption = first_of(split_names(text_key), sample)
        if image is None or caption is None:
            return fate_of_incomplete(image, caption)
        # The filter strips names, webdataset's renaming asserts that it need not.
        for key in (image_key, text_key):
            if " " in key:
                return Fate("crash", "filter", "spaced-key", key)
        # The filter overlooks an empty name such as the
        # middle one of "txt;;caption"; the renaming does not.
        image = first_of(image_key.split(";"), sample)
        caption = first_of(text_key.split(";"), sample)
        assert image is not None
        assert caption is not None
        if options.json_text_key:
            reasons = {NO_CAPTION: "no-caption", BAD: "bad-caption", EMPTY: "bad-caption"}
        else:
            reasons = {EMPTY: "empty-caption", BLANK: "empty-caption", NOT_UTF8: "bad-caption"}
        if reason := reasons.get(caption.status):
            return Fate("dropped", "filter", reason, caption.suffix)
        if image.status in (BIG, BIG_BAD) and options.max_image_pixels:
            return Fate("dropped", "decode", "too-large", image.suffix)
        if image.status in IMAGE_TROUBLE:
            return Fate("dropped", "decode", reason_for(image, image, ""), image.suffix)
        return USABLE

    def buffers(self) -> Buffers:
        """Return the sizes of the shuffle buffers; environment variables set them."""
        try:
            return Buffers.from_environment()
        except ValueError:
            # OpenCLIP itself would raise at once.
            return Buffers()


class FeedReader(OpenClip33):
    """``wdsflow train``: a sample's first image field and first caption field, nothing else.

    Fields of different shards never make a sample. What cannot be read is counted and left out;
    where nothing is left it fails within ``--stall-after``, so that it does not hang. The order of
    shards is OpenCLIP's. Reasons of captions are those that the feed counts.

    Cannot be known here: captions of more than 1 MiB, which the feed does not read; whether json
    without a caption holds a number there ("not-text" for the feed, "no-caption" here).
    """

    name = "wdsflow-train"
    title = "wdsflow's feed"
    # It has its own preflight, and its own options.
    runs_training_command = False
    empty_stalls = False
    reports_losses = True
    joins = False

    def __init__(
        self,
        options: Options,
        images: tuple[str, ...],
        captions: tuple[str, ...],
        *,
        keeps_empty: bool = False,
    ) -> None:
        super().__init__(options)
        self.images, self.captions = images, captions
        # Whether it trains on empty captions of members other than json.
        self._keeps_empty = keeps_empty

    def scan_options(self, options: ScanOptions) -> ScanOptions:
        """Return the options of a scan with the fields that this run reads."""
        reads = self.options
        return replace(
            options,
            json_text_key=split_names(reads.json_text_key),
            json_nested=True,
            max_image_pixels=reads.max_image_pixels,
            text_key=split_names(reads.text_key),
            image_key=split_names(reads.image_key),
        )

    def fate(self, sample: Sample) -> Fate:
        """Return the fate of one sample.

        If several captions are lost, the last one tried gives the reason.
        """
        image = first_of(self.images, sample)
        captions = [sample[name] for name in self.captions if name in sample]
        if image is None or not captions:
            return fate_of_incomplete(image, captions)
        reasons = [self._lost_caption(part) for part in captions]
        if all(reasons):
            return Fate("dropped", "decode", reasons[-1], captions[-1].suffix)
        if image.status in (BIG, BIG_BAD):
            return Fate("dropped", "decode", "too-large", image.suffix)
        if image.status in IMAGE_TROUBLE:
            return Fate("dropped", "decode", reason_for(image, image, ""), image.suffix)
        return USABLE

    def _lost_caption(self, part: Part) -> str:
        """Return why a member gives no caption; "" if it gives one."""
        reason = _UNUSABLE_CAPTIONS.get(part.status, "")
        is_kept = self._keeps_empty and part.suffix.lower() != _JSON
        return "" if is_kept and reason == _EMPTY_CAPTION else reason

    def opens(self, shard: ShardEvidence) -> bool:
        """Return True: it reads all that the scan can read."""
        return True

    def why_not_opened(self, url: Shard) -> str:
        """Return "": it opens all that the scan can open."""
        return ""
