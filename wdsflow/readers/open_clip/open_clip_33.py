"""OpenCLIP 3.3.0 with the webdataset that it pins."""

from collections.abc import Sequence
from typing import TypeVar

from wdsflow.readers.base import USABLE, Fate, Options, Reader
from wdsflow.readers.grouping import MARKED_BAD, Sample, first_of, incomplete, is_marked_bad, split_at_repeats
from wdsflow.readers.wanted_fields import IMAGES, OTHERS, PICKLES, TEXTS, reason_for, refused
from wdsflow.scan.evidence import Shape, ShardEvidence
from wdsflow.shards.field_names import IMAGE_FIELDS

from .assignment import Buffers, assign, epoch_order

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
        if lacking := incomplete(image is not None, caption is not None, "dropped"):
            return lacking
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
