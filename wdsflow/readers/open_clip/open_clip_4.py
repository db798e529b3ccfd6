"""OpenCLIP 4, as its main branch stands (4.2.0.dev0)."""

from wdsflow.readers.base import USABLE, Fate, split_keys
from wdsflow.readers.grouping import Sample, first_of, incomplete
from wdsflow.readers.wanted_fields import IMAGE_TROUBLE, reason_for
from wdsflow.scan.evidence import BAD, BIG, BIG_BAD, BLANK, EMPTY, NO_CAPTION, NOT_UTF8, Part

from .assignment import Buffers
from .open_clip_33 import OpenClip33

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
        if lacking := incomplete(image is not None, caption is not None, "dropped"):
            return lacking
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
