"""How well an image and its caption match."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ..base import SEEN_PIXELS, Subject, Tolerance, Value, bare
from ..sample_view import View
from .model_score import Model, Output, Request
from .models.clip.clip_score import ClipTextScore
from .models.pairs import names_of, pairs, reduced


@dataclass(frozen=True, kw_only=True)
class ClipSimilarity(ClipTextScore):
    """Cosine of the CLIP embeddings of caption and image: from -1 to 1; 0.2 to 0.35 if they match, for ViT-B-32.

    One value for each caption. If a sample has several images, it is the mean over them, or by ``reduce`` the largest
    or the smallest; over frames of its videos (``frames``, ``sampling``) if it has no image. ``model`` and
    ``pretrained`` name any CLIP of OpenCLIP, or a file of weights; ``flip`` mirrors images first. Captions are cut at
    the end of the context. ``tokenizer`` "openclip" repairs captions first, as training does (ftfy, entities of HTML):
    curly quotes, "&amp;", ligatures and full-width forms become plain ones. "hf", transformers' CLIPTokenizer, leaves
    them unchanged; the two differ by up to 0.1 for such captions, and not at all for others. Six digits. Other items of
    a batch may change a value by 1e-5 in fp32, by 0.01 in bf16 and fp16; embeddings from a ledger, half floats, by
    0.001. On photographs, decode="fast" changed it by at most 0.014 (0.0024 on average) for a CLIP of 64 pixels that
    was trained on drawings, by 0.0003 for a ViT-B-32 with random weights, and by 0.06 for a CLIP of 32 pixels with
    random weights. Source: CLIP (Radford et al. 2021). Data-Juicer's image_text_similarity (logits_per_text / 100) is
    the same number except for rounding, for the same weights, with tokenizer="hf" and decode="exact".
    """

    name: ClassVar[str] = "clip_similarity"
    low: ClassVar[float | None] = -1
    high: ClassVar[float | None] = 1
    subject: ClassVar[Subject] = "caption"
    scale_tolerance: ClassVar[Tolerance | None] = SEEN_PIXELS

    caption: str = ""
    reduce: Literal["mean", "max", "min"] = "mean"
    flip: Literal["", "horizontal", "vertical", "both"] = ""

    def models(self) -> tuple[Model, ...]:
        """Return the towers."""
        return self.image_model(), self.text_model()

    def requests(self, view: View) -> list[Request]:
        """Return requests for all images, then for all captions."""
        found = pairs(view, self, self.caption)
        names = names_of(found)
        captions = [text for text, _names in found]
        return self.image_requests(view, names, self.flip) + self.text_requests(captions)

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        """Return the cosine for each caption."""
        found = pairs(view, self, self.caption)
        names, captions = names_of(found), len(found)
        pictures = dict(zip(names, self.grouped(view, outputs[:-captions], names), strict=True))
        values = []
        for (_caption, each), text in zip(found, outputs[-captions:], strict=True):
            cosines = [float(picture @ text) for name in each for picture in pictures[name]]
            values.append(round(reduced(cosines, self.reduce), 6))
        return bare(list(values))
