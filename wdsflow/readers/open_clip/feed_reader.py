"""What wdsflow's feed makes of shards, for the validator."""

from wdsflow.readers.base import USABLE, Fate, Options
from wdsflow.readers.grouping import Sample, first_of, incomplete
from wdsflow.readers.wanted_fields import IMAGE_TROUBLE, TEXT_TROUBLE, reason_for
from wdsflow.scan.evidence import BIG, BIG_BAD, EMPTY, NO_CAPTION, ShardEvidence

from .open_clip_33 import OpenClip33

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
        if lacking := incomplete(image is not None, caption is not None, "dropped"):
            return lacking
        assert image is not None
        assert caption is not None
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
