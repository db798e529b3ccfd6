"""OpenCLIP 3.3, OpenCLIP 4 and wdsflow's feed, as readers."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from wdsflow.readers.base import (
    MARKED_BAD,
    USABLE,
    Fate,
    Options,
    Reader,
    Sample,
    first_of,
    is_marked_bad,
    lacking,
    split_at_repeats,
    split_keys,
)
from wdsflow.readers.wanted_fields import (
    IMAGE_TROUBLE,
    IMAGES,
    OTHERS,
    PICKLES,
    TEXT_TROUBLE,
    TEXTS,
    reason_for,
    refused,
)
from wdsflow.scan.evidence import BAD, BIG, BIG_BAD, BLANK, EMPTY, NO_CAPTION, NOT_UTF8, Part, Shape, ShardEvidence
from wdsflow.shards.shard_names import IMAGE_FIELDS

from .assignment import Buffers, assign, epoch_order


@dataclass(frozen=True)
class Loop:
    """One call of ``train_one_epoch``, whatever its arguments are called in this version."""

    module: ModuleType  # open_clip_train.main
    arguments: dict[str, Any]  # by name

    @property
    def args(self) -> Any:
        """The parsed command line."""
        return self.arguments["args"]

    @property
    def epoch(self) -> int:
        """The epoch, counted from 0: as many are completed."""
        state = self.arguments.get("state")
        return int(self.arguments["epoch"] if state is None else state.epoch)

    def checkpoint(self) -> dict[str, Any] | None:
        """Return what OpenCLIP would save now; None on ranks that save nothing. With FSDP all ranks must call it."""
        state, args = self.arguments.get("state"), self.args
        if state is not None:
            if not (args.save_logs or getattr(args, "fsdp", False)):
                return None
            found: dict[str, Any] = self.module.save_checkpoint(
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
            # The names in the state of a compiled model have a prefix; OpenCLIP saves the one inside.
            "state_dict": getattr(model, "_orig_mod", model).state_dict(),
            "optimizer": self.arguments["optimizer"].state_dict(),
        }
        return found if scaler is None else {**found, "scaler": scaler.state_dict()}


def saves_at(args: Any, completed: int) -> bool:
    """Return whether OpenCLIP itself writes a checkpoint after so many epochs."""
    regular = args.save_frequency > 0 and completed % args.save_frequency == 0
    return bool(completed == args.epochs or regular or args.save_most_recent)


def why_no_checkpoints(args: Any) -> str:
    """Return why nothing can be saved inside of epochs with these arguments, "" if it can."""
    if not args.logs or args.logs.lower() == "none":
        return "with --logs none OpenCLIP keeps no checkpoints"
    if getattr(args, "horovod", False):
        return "not with --horovod"
    if getattr(args, "fsdp", False) and getattr(args, "fsdp_checkpoint", "") == "sharded":
        return "not with --fsdp-checkpoint sharded"
    return ""


T = TypeVar("T")

_TEXT_KEY = "txt"
_DECODED = IMAGES | TEXTS | OTHERS | PICKLES


class OpenClip33(Reader):
    """OpenCLIP 3.3.0's training pipeline on webdataset 0.2.86 or older.

    It keeps samples that have ``txt`` and one of jpg, png, jpeg, webp, then decodes *every* field: any field that does
    not decode drops the sample. It drops silently, raises for nothing that a shard can hold, and starts over endlessly
    where nothing passes. Nothing marks the end of a shard, so an open sample continues in the next one.

    Cannot be known here: what a pickled field does (taken as valid); with a negative ``--seed`` each worker shuffles
    by a seed of its own (the given order is assumed); ``--dataset-resampled`` draws shards (one pass over all is
    judged).

    Source: open_clip_train/data.py 3.3.0, get_wds_dataset.
    """

    name = "open-clip-3.3"
    title = "OpenCLIP 3.3.0 (webdataset <= 0.2.86)"
    empty_stalls = True
    raises = False  # its handler logs the error and continues with the next shard
    joins = True  # webdataset up to 0.2.88

    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        """Return the fate of each sample that the run is cut into; none of them is a crash."""
        return tuple(MARKED_BAD if is_marked_bad(sample) else self.fate(sample) for sample in split_at_repeats(shape))

    def fate(self, sample: Sample) -> Fate:
        """Return what becomes of one sample after the grouping stage."""
        image, caption = first_of(IMAGE_FIELDS, sample), sample.get(_TEXT_KEY)
        if image is None or caption is None:
            return lacking(image, caption)
        for part in sample.values():
            if not part.suffix.startswith("__") and refused(part, _DECODED):
                return Fate("dropped", "decode", reason_for(part, image, _TEXT_KEY), part.suffix)
        return USABLE

    def buffers(self) -> Buffers:
        """Return the sizes of the shuffle buffers."""
        return Buffers()

    def order(self, shards: Sequence[ShardEvidence]) -> list[list[ShardEvidence]]:
        """Return each worker's shards in the order of ``options.epoch``; all in one list if they are drawn."""
        return [list(shards)] if self.options.resampled else self.assigned(shards, self.options)

    def assigned(self, items: Sequence[T], options: Options) -> list[list[T]]:
        """Return each worker's items, rank by rank, in the order of ``options.epoch``.

        With a negative seed each worker shuffles by a seed of its own: the given order is assumed.
        """
        seed = options.seed + options.epoch
        mixed = items if options.seed < 0 else list(epoch_order(items, seed, self.buffers()))
        return assign(mixed, options.world_size, options.workers)


_JSON = "json"


class OpenClip4(OpenClip33):
    """OpenCLIP 4's training pipeline: it decodes only the chosen image and the chosen caption.

    The image is the first of ``--image-key``, the caption the first of ``--text-key``, or a string in ``json`` with
    ``--json-text-key``. Captions of white space only are dropped, images over ``--max-image-pixels`` too. Grouping,
    order of shards, silence and the endless loop are those of 3.3.0.

    Cannot be known here: with ``--max-image-pixels 0`` it decodes up to 256 megapixels, while the scan calls what is
    beyond Pillow's own limit of 178 a bomb. With ``--json-text-key-probs`` every named key can serve, so that a sample
    is usable if one of them holds a caption.

    Source: open_clip_train/data.py of 2026-06-27 (4.2.0.dev0), get_wds_dataset.
    """

    name = "open-clip-4"
    title = "OpenCLIP 4 (main branch; webdataset <= 0.2.86)"

    def fate(self, sample: Sample) -> Fate:
        """Return what becomes of one sample after the grouping stage."""
        options = self.options
        image_key, text_key = options.image_key, _JSON if options.json_text_key else options.text_key
        image, caption = first_of(split_keys(image_key), sample), first_of(split_keys(text_key), sample)
        if image is None or caption is None:
            return lacking(image, caption)
        if " " in image_key + text_key:  # the filter strips names, webdataset's renaming asserts that it need not
            return Fate("crash", "filter", "spaced-key", image_key if " " in image_key else text_key)
        # The filter overlooks an empty name such as the middle one of "txt;;caption"; the renaming does not.
        image, caption = first_of(image_key.split(";"), sample), first_of(text_key.split(";"), sample)
        assert image is not None
        assert caption is not None
        if reason := self._caption_trouble(caption):
            return Fate("dropped", "filter", reason, caption.suffix)
        if image.status in (BIG, BIG_BAD) and options.max_image_pixels:
            return Fate("dropped", "decode", "too-large", image.suffix)
        if image.status in IMAGE_TROUBLE:
            return Fate("dropped", "decode", reason_for(image, image, ""), image.suffix)
        return USABLE

    def _caption_trouble(self, caption: Part) -> str:
        if self.options.json_text_key:
            return {NO_CAPTION: "no-caption", BAD: "bad-caption", EMPTY: "bad-caption"}.get(caption.status, "")
        return {EMPTY: "empty-caption", BLANK: "empty-caption", NOT_UTF8: "bad-caption"}.get(caption.status, "")

    def buffers(self) -> Buffers:
        """Return the sizes of the shuffle buffers; environment variables set them."""
        try:
            return Buffers.from_environment()
        except ValueError:  # OpenCLIP itself would raise at once
            return Buffers()


_LOST_CAPTION = TEXT_TROUBLE | {EMPTY, NO_CAPTION}


class FeedReader(OpenClip33):
    """``wdsflow train``: the first image field of a sample and the first of its caption fields, nothing else.

    Fields of different shards never make a sample. What cannot be read is counted and left out; where nothing is left
    it fails within ``--stall-after``, so that it does not hang. The order of shards is OpenCLIP's.
    """

    name = "wdsflow-train"
    title = "wdsflow's feed"
    empty_stalls = False
    reports_losses = True
    joins = False

    def __init__(self, options: Options, images: tuple[str, ...], captions: tuple[str, ...]) -> None:
        super().__init__(options)
        self.images, self.captions = images, captions

    def fate(self, sample: Sample) -> Fate:
        """Return what becomes of one sample."""
        image, caption = first_of(self.images, sample), first_of(self.captions, sample)
        if image is None or caption is None:
            return lacking(image, caption)
        if all(sample[name].status in _LOST_CAPTION for name in self.captions if name in sample):
            return Fate("dropped", "decode", "bad-caption", caption.suffix)
        if image.status in (BIG, BIG_BAD):
            return Fate("dropped", "decode", "too-large", image.suffix)
        if image.status in IMAGE_TROUBLE:
            return Fate("dropped", "decode", reason_for(image, image, ""), image.suffix)
        return USABLE

    def opens(self, shard: ShardEvidence) -> bool:
        """Return True: it reads whatever the scan can read."""
        return True
