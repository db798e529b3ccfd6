"""Whether an image and its caption match, as a model judges that reads both."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from .base import Subject, Value, bare
from .model import Item, Model, ModelScore, Output, Precision, Request
from .models.image_text_matcher import MOST_TOKENS, ImageTextMatcher
from .models.pairs import pairs, reduced
from .models.weights import source_of
from .view import View


@dataclass(frozen=True, kw_only=True)
class ImageTextMatch(ModelScore):
    """Probability that caption and image match, by BLIP's image-text matching: from 0 to 1.

    One value for each caption. Where a sample has several images, it is the mean over them, or as ``reduce`` says the
    largest or the smallest. ``model`` is a BlipForImageTextRetrieval: a name in the hub, "name@revision" or a folder;
    ``flip`` mirrors images before. Captions are cut after 512 tokens.
    Six digits. Neighbours in a batch may change a value by 1e-5 in fp32, by 0.02 in bf16 and fp16.
    Source: BLIP (Li et al. 2022). Data-Juicer's image_text_matching_score, softmax(itm_score)[1], is the same number.
    """

    name: ClassVar[str] = "image_text_match"
    low: ClassVar[float | None] = 0
    high: ClassVar[float | None] = 1
    subject: ClassVar[Subject] = "caption"
    needs: ClassVar[tuple[str, ...]] = ("transformers",)
    packages: ClassVar[tuple[str, ...]] = ("transformers", "torch")

    model: str = "Salesforce/blip-itm-base-coco"
    precision: Precision = "fp32"
    caption: str = ""
    image: str = ""
    reduce: Literal["mean", "max", "min"] = "mean"
    flip: Literal["", "horizontal", "vertical", "both"] = ""

    def models(self) -> tuple[Model, ...]:
        """Return the model."""
        return (ImageTextMatcher(model=self.model, precision=self.precision),)

    def requests(self, view: View) -> list[Request]:
        """Return a request for each pair, caption by caption."""
        from .models.processors import preparation

        (model,), prepare = self.models(), preparation(self.model, self.flip)
        return [
            Request(model, (name, self.flip, text), partial(self._pair, view, name, prepare, text))
            for text, names in pairs(view, self.caption, self.image)
            for name in names
        ]

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        """Return the probability for each caption."""
        rest = iter(outputs)
        return bare(
            [
                round(reduced([next(rest) for _name in names], self.reduce), 6)
                for _text, names in pairs(view, self.caption, self.image)
            ]
        )

    def settings(self) -> dict[str, Any]:
        """Return the settings; a folder by its contents."""
        return {**super().settings(), "model": source_of(self.model)}

    def _pair(self, view: View, name: str, prepare: Any, text: str) -> Item:
        import numpy as np

        from .models.hub import longest, token_ids

        ids = token_ids(self.model, text, longest(self.model, MOST_TOKENS))
        return view.prepared(name, prepare), np.array(ids, np.int32)
