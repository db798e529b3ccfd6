"""The similarity of caption and image."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ...base import SEEN_PIXELS, Scalar, Value, single_or_list
from ..model import Model, Output
from ..model_score import Request
from ..pictures.prepare import Flip
from ..pictures.reduced import Reduce, reduced
from .clip_score import ClipTextScore
from .clip_tokens import clip_item
from .towers import ClipText

if TYPE_CHECKING:
    from ...sample_view import View


@dataclass(frozen=True, kw_only=True)
class ClipSimilarity(
    ClipTextScore,
    name="clip_similarity",
    low=-1,
    high=1,
    subject="caption",
    scale_tolerance=SEEN_PIXELS,
    cpu_seconds=0.2,
):
    """Cosine of the CLIP embeddings of caption and image, from -1 to 1.

    For ViT-B-32 it is 0.2 to 0.35 if they match.

    One value for each caption. If a sample has several images, it is the mean over them, or by
    ``reduce`` the largest or the smallest; over frames of its videos (``frames``, ``sampling``) if
    it has no image. ``model`` and ``pretrained`` name any CLIP of OpenCLIP, or a file of weights;
    ``flip`` mirrors images first. Captions are cut at the end of the context. ``processor``
    "openclip" repairs captions first, as training does (ftfy, entities of HTML): curly quotes,
    "&amp;", ligatures and full-width forms become plain ones. "hf", transformers' CLIPProcessor,
    leaves them unchanged, which makes up to 0.1 of a difference for such captions. It also crops
    some images a pixel nearer to their left or upper edge: where the scaled long side is 3, 7, 11,
    ... pixels longer than the crop. Six digits. Other items of a batch may change a value by 1e-5
    in fp32, by 0.01 in bf16 and fp16; embeddings from a ledger, half floats, by 0.001. On
    photographs, decode="fast" changed it by at most 0.014 (0.0024 on average) for a CLIP of 64
    pixels that was trained on drawings, by 0.0003 for a ViT-B-32 with random weights, and by 0.06
    for a CLIP of 32 pixels with random weights. Source: CLIP (Radford et al. 2021). Data-Juicer's
    image_text_similarity (logits_per_text / 100) is the same number except for rounding, for the
    same weights, with processor="hf" and decode="exact".
    """

    caption: str = ""
    reduce: Reduce = "mean"
    flip: Flip = ""

    def _text_tower(self) -> ClipText:
        return self.tower(ClipText, tokenizer=self.processor)

    def models(self) -> tuple[Model, ...]:
        return self.main_model(), self._text_tower()

    def requests(self, view: "View") -> list[Request]:
        """Return requests for all images, then for all captions, whose keys are the captions."""
        model = self._text_tower()
        texts = [
            Request(model, text, partial(clip_item, self.model, text, self.processor))
            for text in self.captions(view, self.caption)
        ]
        return self.image_requests(view, self.flip) + texts

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        count = len(self.captions(view, self.caption))
        pictures, captions = outputs[:-count], outputs[-count:]
        values: list[Scalar] = []
        for caption in captions:
            cosines = [float(picture @ caption) for picture in pictures]
            values.append(round(reduced(cosines, self.reduce), 6))
        return single_or_list(values)
