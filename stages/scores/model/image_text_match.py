"""Whether an image and its caption match, by a model that reads both."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from ..base import SEEN_PIXELS, Subject, Tolerance, Value, bare
from ..sample_view import View
from ..video.video_pictures import PictureScore, VideoPicture
from .model_score import Item, Model, Output, Precision, Request
from .models.clip.clip_weights import source_of
from .models.image_text_matcher import MOST_TOKENS, ImageTextMatcher
from .models.pairs import names_of, pairs, reduced


@dataclass(frozen=True, kw_only=True)
class ImageTextMatch(PictureScore):
    """Probability that caption and image match, by BLIP's image-text matching: from 0 to 1.

    One value for each caption. If a sample has several images, it is the mean over them, or by ``reduce`` the largest
    or the smallest; over frames of its videos (``frames``, ``sampling``) if it has no image. ``model`` is a
    BlipForImageTextRetrieval: a name in the hub, "name@revision" or a folder; ``flip`` mirrors images first. Captions
    are cut after 512 tokens. Six digits. Other items of a batch may change a value by 1e-5 in fp32, by 0.02 in bf16 and
    fp16. ``decode``: see classify. Source: BLIP (Li et al. 2022). Data-Juicer's image_text_matching_score,
    softmax(itm_score)[1], is the same number except for rounding, with decode="exact".
    """

    name: ClassVar[str] = "image_text_match"
    low: ClassVar[float | None] = 0
    high: ClassVar[float | None] = 1
    subject: ClassVar[Subject] = "caption"
    scale_tolerance: ClassVar[Tolerance | None] = SEEN_PIXELS
    needs: ClassVar[tuple[str, ...]] = ("transformers",)
    packages: ClassVar[tuple[str, ...]] = ("transformers", "torch")

    model: str = "Salesforce/blip-itm-base-coco"
    precision: Precision = "fp32"
    caption: str = ""
    reduce: Literal["mean", "max", "min"] = "mean"
    flip: Literal["", "horizontal", "vertical", "both"] = ""

    def models(self) -> tuple[Model, ...]:
        """Return the model."""
        return (ImageTextMatcher(model=self.model, precision=self.precision),)

    def requests(self, view: View) -> list[Request]:
        """Return a request for each pair, caption by caption."""
        from .models.processors import preparation

        (model,), prepare = self.models(), preparation(self.model, self.flip, self.decode)
        found = pairs(view, self, self.caption)
        pictures: dict[Any, list[VideoPicture]] = {}
        for picture in self.pictures(view, names_of(found), prepare):
            pictures.setdefault(picture.key[0], []).append(picture)
        return [
            Request(model, (*picture.key, self.flip, text), partial(self._pair, picture, text))
            for text, names in found
            for name in names
            for picture in pictures[name]
        ]

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        """Return the probability for each caption."""
        found, rest = pairs(view, self, self.caption), iter(outputs)
        images = self.image_fields(view)
        counts = {name: 1 if images else view.frame_count(name, self.sampled) for name in names_of(found)}
        return bare(
            [
                round(reduced([next(rest) for name in names for _ in range(counts[name])], self.reduce), 6)
                for _text, names in found
            ]
        )

    def settings(self) -> dict[str, Any]:
        """Return the settings; a folder by its contents."""
        return {**super().settings(), "model": source_of(self.model)}

    def _pair(self, picture: VideoPicture, text: str) -> Item:
        import numpy as np

        from .models.model_texts import longest, token_ids

        ids = token_ids(self.model, text, longest(self.model, MOST_TOKENS))
        return picture.make(), np.array(ids, np.int32)
