"""timm's reader of WebDataset shards."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.shapes import Shape
from wdsflow.shards.shard import Shard

from .base import (
    KEY,
    MARKED_BAD,
    URL,
    USABLE,
    Fate,
    Reader,
    Sample,
    fate_of_incomplete,
    first_of,
    is_marked_bad,
)
from .open_clip.versions import Buffers, epoch_order
from .url_schemes import why_not_opened_by_webdataset_02
from .wanted_fields import IMAGE_TROUBLE, OTHER_TROUBLE, reason_for

_IMAGES = ("jpg", "png", "webp")
_LABEL = "cls"
_SEED = 42
_BUFFERS = Buffers(shards=500, shards_initial=100)


class Timm(Reader):
    """timm 1.0's ``create_dataset("wds/", ...)`` for training, on webdataset 0.2.86 or older.

    The full call is ``create_dataset("wds/", root, split="{...}.tar|N", is_training=True)``.

    It decodes the image and the class number in ``cls``, no caption; every error is logged, and the
    sample dropped. The epoch has as many samples as the split says, so that a worker reads its
    shards again and again.

    Cannot be known here: a ``target_key``, which takes the label from json; other values of
    ``input_key``, ``seed`` and WDS_SHUFFLE_SIZE; a class map, which raises for a class that it
    lacks. Validation (``is_training=False``) reads the shards once and ends, so that it does not
    hang.

    Source: timm 1.0.31, data/readers/reader_wds.py.
    """

    name = "timm"
    title = "timm 1.0 (training on WebDataset)"
    takes_one_pair = True
    empty_stalls = True
    # Its handler logs the error and continues with the next shard.
    raises = False
    # webdataset up to 0.2.88.
    joins = True
    pairs_with = "label"
    aliases: ClassVar[Mapping[str, str]] = {"jpeg": "jpg", "label": _LABEL, "class": _LABEL}

    def why_not_opened(self, url: Shard) -> str:
        """Return why webdataset 0.2 has no handler for a url."""
        return why_not_opened_by_webdataset_02(url)

    def image_fields(self) -> tuple[str, ...]:
        """Return timm's default ``input_key``."""
        return _IMAGES

    def paired_fields(self) -> tuple[str, ...]:
        """Return the field of the class number."""
        return (_LABEL,)

    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        """Return the fate of the one sample of the run; it is never a crash."""
        sample: Sample = {}
        for part in shape:
            suffix = part.suffix.lower()
            # Each sample has them already.
            if suffix not in (KEY, URL):
                sample.setdefault(suffix, part._replace(suffix=suffix))
        if is_marked_bad(sample):
            return (MARKED_BAD,)
        return (self._fate(sample),)

    def _fate(self, sample: Sample) -> Fate:
        image = first_of(_IMAGES, sample)
        label = sample.get(_LABEL)
        if image is None or label is None:
            return fate_of_incomplete(image, label, pairs_with=self.pairs_with)
        if label.status in OTHER_TROUBLE:
            return Fate("dropped", "decode", "bad-label", label.suffix)
        if image.status in IMAGE_TROUBLE:
            return Fate("dropped", "decode", reason_for(image, image, ""), image.suffix)
        return USABLE

    def order(self, shards: Sequence[ShardEvidence]) -> list[list[ShardEvidence]]:
        """Return each worker's shards in the order of ``options.epoch``.

        All shards are shuffled, then dealt out in turn.
        """
        seed = _SEED + self.options.epoch
        shuffled = list(epoch_order(shards, seed, _BUFFERS))
        workers = max(1, self.options.workers) * self.options.world_size
        return [shuffled[worker::workers] for worker in range(workers)]
