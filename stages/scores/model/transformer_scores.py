"""Scores by models of transformers."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from ..base import SEEN_PIXELS, ScoreError, Subject, Tolerance, Value, bare
from .model_score import Item, Model, ModelScore, Output, Precision, Request
from .models.weights import source_of
from .picture_score import Flip, ModelPicture, PictureScore, Reduce, finite, names_of, reduced

if TYPE_CHECKING:
    from ..sample_view import View
    from .models.transformer import ImageClassifier, LanguageModel, TextClassifier


class TransformerScore(ModelScore):
    """A score by a model of transformers, which its setting ``model`` names."""

    needs: ClassVar[tuple[str, ...]] = ("transformers",)
    packages: ClassVar[tuple[str, ...]] = ("transformers", "torch")
    model: str

    def settings(self) -> dict[str, object]:
        """Return the settings; a folder by a hash of its contents."""
        return {**super().settings(), "model": source_of(self.model)}


@dataclass(frozen=True, kw_only=True)
class ImageTextMatch(TransformerScore, PictureScore):
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

    model: str = "Salesforce/blip-itm-base-coco"
    precision: Precision = "fp32"
    caption: str = ""
    reduce: Reduce = "mean"
    flip: Flip = ""

    def models(self) -> tuple[Model, ...]:
        """Return the model."""
        from .models.transformer import ImageTextMatcher

        return (ImageTextMatcher(model=self.model, precision=self.precision),)

    def requests(self, view: "View") -> list[Request]:
        """Return a request for each pair, caption by caption."""
        from .models.hub import preparation

        (model,), prepare = self.models(), preparation(self.model, self.flip, self.decode)
        found = self.pairs(view, self.caption)
        pictures: dict[Hashable, list[ModelPicture]] = {}
        for picture in self.pictures(view, names_of(found), prepare):
            pictures.setdefault(picture.key[0], []).append(picture)
        return [
            Request(model, (*picture.key, self.flip, text), partial(self._pair, picture, text))
            for text, names in found
            for name in names
            for picture in pictures[name]
        ]

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        """Return the probability for each caption."""
        found, rest = self.pairs(view, self.caption), iter(outputs)
        images = self.image_fields(view)
        counts = {name: 1 if images else view.frame_count(name, self.sampled) for name in names_of(found)}
        return bare(
            [
                round(reduced([next(rest) for name in names for _ in range(counts[name])], self.reduce), 6)
                for _text, names in found
            ]
        )

    def _pair(self, picture: ModelPicture, text: str) -> Item:
        import numpy as np

        from .models.transformer import MOST_TOKENS, longest, token_ids

        ids = token_ids(self.model, text, longest(self.model, MOST_TOKENS))
        return picture.make(), np.array(ids, np.int32)


# name: (model in the hub, number of the label)
PRESETS = {"nsfw": ("Falconsai/nsfw_image_detection", "1"), "watermark": ("amrul-hzz/watermark_detector", "1")}


@dataclass(frozen=True, kw_only=True)
class Classify(TransformerScore, PictureScore):
    """Probability of a label of an image, by any image classifier of transformers: from 0 to 1.

    ``model`` is a name in the hub, "name@revision", a folder, or "nsfw" (Falconsai/nsfw_image_detection) or "watermark"
    (amrul-hzz/watermark_detector); ``label`` is a name or a number of one of its labels; the last two have a default.
    Softmax over the labels; a sigmoid if several labels may fit by the model's configuration; the number itself if the
    model has one label. One value for each image, or the mean over frames of each video (``frames``, ``sampling``,
    ``reduce``) if the sample has no image. With decode="exact", the model's own processor prepares images. With "fast",
    if that processor only resizes them, images are decoded at a reduced scale and resized by Pillow: see tolerance. Six
    digits. Other items of a batch may change a value by 1e-5 in fp32, by 0.02 in bf16 and fp16. Source: transformers'
    AutoModelForImageClassification. Data-Juicer's image_nsfw_score and image_watermark_prob are the same numbers except
    for rounding, with decode="exact".
    """

    name: ClassVar[str] = "classify"
    subject: ClassVar[Subject] = "image"
    scale_tolerance: ClassVar[Tolerance | None] = SEEN_PIXELS

    model: str = "nsfw"
    label: str = ""
    precision: Precision = "fp32"
    reduce: Reduce = "mean"

    def _model(self) -> "ImageClassifier":
        from .models.transformer import ImageClassifier

        return ImageClassifier(model=PRESETS.get(self.model, (self.model,))[0], precision=self.precision)

    def _label(self) -> str:
        return self.label or PRESETS.get(self.model, ("", ""))[1]

    def models(self) -> tuple[Model, ...]:
        """Return the classifier."""
        return (self._model(),)

    def requests(self, view: "View") -> list[Request]:
        """Return a request for each image. Raises ValueError if the model has no such label."""
        from .models.hub import label_index, preparation

        model = self._model()
        label_index(model.model, self._label())
        prepare = preparation(model.model, how=self.decode)
        return [Request(model, key, make) for key, make in self.pictures(view, self.fields_of(view), prepare)]

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        """Return the probability for each image."""
        from .models.hub import label_index

        place = label_index(self._model().model, self._label())
        groups = self.grouped(view, outputs)
        return bare([round(reduced([finite(each[place]) for each in group], self.reduce), 6) for group in groups])

    def settings(self) -> dict[str, object]:
        """Return the settings; a folder by a hash of its contents."""
        return {**super().settings(), "model": source_of(self._model().model), "label": self._label()}


@dataclass(frozen=True, kw_only=True)
class TextClassify(TransformerScore):
    """Probability of a label of a caption, by any text classifier of transformers: from 0 to 1.

    ``model`` is a name in the hub, "name@revision" or a folder; ``label`` a name or a number of one of its labels.
    Softmax over the labels; a sigmoid if several labels may fit by the model's configuration; the number itself if the
    model has one label. Captions are cut after ``max_tokens``, or at the length of the model. One value for each
    caption. Six digits. Other items of a batch may change a value by 1e-5 in fp32, by 0.02 in bf16 and fp16. Source:
    transformers' AutoModelForSequenceClassification.
    """

    name: ClassVar[str] = "text_classify"
    subject: ClassVar[Subject] = "caption"

    model: str = ""
    label: str = ""
    max_tokens: int = 512
    precision: Precision = "fp32"
    caption: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model or self.max_tokens < 1:
            raise ValueError(
                "text_classify needs model='org/name' or a folder, and label='...'; max_tokens must be at least 1"
            )

    def _model(self) -> "TextClassifier":
        from .models.transformer import TextClassifier

        return TextClassifier(model=self.model, precision=self.precision, max_tokens=self.max_tokens)

    def models(self) -> tuple[Model, ...]:
        """Return the classifier."""
        return (self._model(),)

    def requests(self, view: "View") -> list[Request]:
        """Return a request for each caption. Raises ValueError if the model has no such label."""
        from .models.hub import label_index

        model = self._model()
        label_index(self.model, self.label)
        return [Request(model, text, partial(self._ids, text)) for text in view.captions(self.caption)]

    def _ids(self, text: str) -> Item:
        import numpy as np

        from .models.transformer import longest, token_ids

        return np.array(token_ids(self.model, text, longest(self.model, self.max_tokens)), np.int32)

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        """Return the probability for each caption."""
        from .models.hub import label_index

        place = label_index(self.model, self.label)
        return bare([round(finite(output[place]), 6) for output in outputs])


_MOST_NATS = 700  # nats; the exponential of more is not a float


@dataclass(frozen=True, kw_only=True)
class CaptionPerplexity(TransformerScore):
    """Perplexity of the caption under a causal language model: from 1 on; low for plain sentences, high for noise.

    The exponential of the mean negative log likelihood of its tokens, each given those before it. The first is given
    the token that begins a text (otherwise the one that ends it), so a caption of one token has a value too. A caption
    without tokens is an error ("empty-caption"), as is a caption of one token under a model with neither. ``model`` is
    a name in the hub, "name@revision" or a folder. Captions are cut after ``max_tokens``, or at the length of the
    model. One value for each caption. Six significant digits. Other items of a batch may change a value by a part of
    1e-4 in fp32, of 0.05 in bf16 and fp16. Source: transformers' AutoModelForCausalLM. Data-Juicer's perplexity is
    another number (an n-gram model, log 10).
    """

    name: ClassVar[str] = "caption_perplexity"
    low: ClassVar[float | None] = 1
    subject: ClassVar[Subject] = "caption"

    model: str = "openai-community/gpt2"
    max_tokens: int = 512
    precision: Precision = "fp32"
    caption: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model or self.max_tokens < 2:
            raise ValueError("caption_perplexity needs model='org/name' or a folder; max_tokens must be at least 2")

    def _model(self) -> "LanguageModel":
        from .models.transformer import LanguageModel

        return LanguageModel(model=self.model, precision=self.precision, max_tokens=self.max_tokens)

    def models(self) -> tuple[Model, ...]:
        """Return the language model."""
        return (self._model(),)

    def requests(self, view: "View") -> list[Request]:
        """Return a request for each caption."""
        model = self._model()
        return [Request(model, text, partial(self._ids, text)) for text in view.captions(self.caption)]

    def _ids(self, text: str) -> Item:
        import numpy as np

        from .models.transformer import longest, text_facts, token_ids

        start, most = text_facts(self.model).start, longest(self.model, self.max_tokens)
        first = [] if start is None else [start]
        ids = token_ids(self.model, text, most - len(first), special=False)
        if not ids or len(first) + len(ids) < 2:
            raise ScoreError("empty-caption", f"{text[:60]!r} has {len(ids)} tokens: too few for a value")
        return np.array([*first, *ids], np.int32)

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        """Return the perplexity of each caption."""
        return bare([float(f"{math.exp(min(finite(output), _MOST_NATS)):.6g}") for output in outputs])
