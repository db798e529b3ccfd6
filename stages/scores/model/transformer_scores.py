"""Models of transformers, and their scores: classifiers, image-text matchers, language models."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from typing import Any, ClassVar

from wdsflow.memory.precision import Precision, UsedPrecision, used

from ..base import SEEN_PIXELS, ScoreError, Value, bare
from ..sample_view import View
from . import hub
from .hub import token_ids
from .model_score import (
    CaptionModelScore,
    Item,
    Loaded,
    Model,
    ModelFact,
    ModelScore,
    ModelSource,
    Output,
    Request,
    local_path,
    source_of,
)
from .pictures import Flip, PictureScore, PreparesPicture, Reduce, area, finite, reduced


@dataclass(frozen=True, kw_only=True)
class TransformerModel(Model, packages=("torch", "transformers", "tokenizers")):
    """A model of transformers: ``model`` is "org/name", "org/name@revision" or a folder."""

    # transformers' class.
    loads: ClassVar[str]
    # For decoders.
    facts_shared: ClassVar[tuple[ModelFact[Any], ...]] = ()

    model: str
    precision: UsedPrecision = "fp32"

    def load(self, device: str) -> Loaded:
        return hub.load_model(self.loads, self.model, self.precision, device)

    def called(self) -> str:
        return f"{self.kind}, {self.model!r}"

    def fetched(self) -> ModelSource | None:
        if local_path(self.model) is not None:
            return None
        name, _at, revision = self.model.partition("@")
        return ModelSource(name, revision, "model='./FOLDER'")

    def facts(self) -> tuple[object, ...]:
        return tuple(fact(self.model) for fact in self.facts_shared)

    def recall(self, facts: tuple[object, ...]) -> None:
        for fact, known in zip(self.facts_shared, facts, strict=True):
            fact.share(known, self.model)

    def identity(self) -> dict[str, object]:
        return {**super().identity(), "settings": {**vars(self), "model": source_of(self.model)}}


@dataclass(frozen=True, kw_only=True)
class TokenModel(TransformerModel):
    """A model of transformers whose items are the token ids of a text, int32."""

    max_tokens: int = 512

    def cost(self, item: Item) -> int:
        return len(item)

    def largest(self) -> Item:
        import numpy as np

        return np.ones(hub.longest(self.model, self.max_tokens), np.int32)


@dataclass(frozen=True, kw_only=True)
class ImageClassifier(
    TransformerModel,
    kind="transformers image classifier",
    packages=("torch", "transformers", "pillow", "simplejpeg"),
    loads="AutoModelForImageClassification",
    facts_shared=(hub.labels_of, hub.squeezed_to),
):
    """From pictures of ``preparation`` to the probabilities of all labels, float32 (labels)."""

    def run(self, loaded: Loaded, batch: Sequence[Item]) -> Sequence[Output]:
        pixels = hub.pixel_values(self.model, batch, str(loaded.device)).to(loaded.dtype)
        return hub.probabilities(loaded(pixel_values=pixels).logits, loaded.config.problem_type)

    def cost(self, item: Item) -> int:
        return area(item)

    def largest(self) -> Item | None:
        return hub.black_picture(self.model)


_MOST_TOKENS = 512
# Pixels that cost as much as a token: vision transformers use patches of 16 x 16.
_PATCH = 256


@dataclass(frozen=True, kw_only=True)
class ImageTextMatcher(
    TransformerModel,
    kind="BLIP image-text matching",
    packages=(*TransformerModel.packages, "pillow", "simplejpeg"),
    loads="BlipForImageTextRetrieval",
    facts_shared=(hub.text_facts, hub.squeezed_to),
):
    """From (picture, token ids) to the probability that they match. ``model`` is a BlipForImageTextRetrieval."""

    def run(self, loaded: Loaded, batch: Sequence[Item]) -> Sequence[Output]:
        import torch

        device = str(loaded.device)
        pixels = hub.pixel_values(self.model, [picture for picture, _tokens in batch], device).to(
            loaded.dtype
        )
        inputs = hub.padded(
            [tokens for _picture, tokens in batch],
            device,
            loaded.config.text_config.pad_token_id or 0,
        )
        # The model creates a mask on the default device.
        with torch.device(device):
            scores = loaded(**inputs, pixel_values=pixels, use_itm_head=True).itm_score
        found: list[float] = scores.float().softmax(-1)[:, 1].tolist()
        return found

    def cost(self, item: Item) -> int:
        picture, tokens = item
        return area(picture) + _PATCH * len(tokens)

    def largest(self) -> Item | None:
        import numpy as np

        black = hub.black_picture(self.model)
        return (
            None
            if black is None
            else (black, np.ones(hub.longest(self.model, _MOST_TOKENS), np.int32))
        )


@dataclass(frozen=True, kw_only=True)
class LanguageModel(
    TokenModel,
    kind="transformers language model",
    loads="AutoModelForCausalLM",
    facts_shared=(hub.text_facts,),
):
    """From token ids, int32, to the mean negative log likelihood (nats) of all but the first of them, a float."""

    def run(self, loaded: Loaded, batch: Sequence[Item]) -> Sequence[Output]:
        from torch.nn.functional import cross_entropy

        inputs = hub.padded(batch, str(loaded.device))
        logits = loaded(**inputs, use_cache=False).logits
        found = []
        # One at a time: a float32 copy of all logits would double peak memory.
        for row, tokens in enumerate(batch):
            last = len(tokens) - 1
            loss = cross_entropy(logits[row, :last].float(), inputs["input_ids"][row, 1 : last + 1])
            found.append(float(loss))
        return found


@dataclass(frozen=True, kw_only=True)
class TextClassifier(
    TokenModel,
    kind="transformers text classifier",
    loads="AutoModelForSequenceClassification",
    facts_shared=(hub.text_facts, hub.labels_of),
):
    """From token ids, int32, to the probabilities of all labels, float32 (labels)."""

    def run(self, loaded: Loaded, batch: Sequence[Item]) -> Sequence[Output]:
        config = loaded.config
        known = config.pad_token_id
        # Causal models classify at the last token before the padding. If there is no padding token,
        # use one that does not occur in the batch.
        fill = (
            next(number for number in count() if not any(number in ids for ids in batch))
            if known is None
            else known
        )
        config.pad_token_id = fill
        try:
            return hub.probabilities(
                loaded(**hub.padded(batch, str(loaded.device), fill)).logits, config.problem_type
            )
        finally:
            config.pad_token_id = known


class TransformerScore(ModelScore, needs=("transformers",), packages=("transformers", "torch")):
    """A score by a model of transformers, which its setting ``model`` names."""

    model: str

    @abstractmethod
    def main_model(self) -> TransformerModel: ...

    def settings(self) -> dict[str, object]:
        return {**super().settings(), "model": source_of(self.main_model().model)}


@dataclass(frozen=True, kw_only=True)
class ImageTextMatch(
    TransformerScore,
    PictureScore,
    name="image_text_match",
    low=0,
    high=1,
    subject="caption",
    scale_tolerance=SEEN_PIXELS,
    cpu_seconds=2,
):
    """Probability that caption and image match, by BLIP's image-text matching: from 0 to 1.

    One value for each caption. If a sample has several images, it is the mean over them, or by
    ``reduce`` the largest or the smallest; over frames of its videos (``frames``, ``sampling``) if
    it has no image. ``model`` is a BlipForImageTextRetrieval: a name in the hub, "name@revision" or
    a folder; ``flip`` mirrors images first. Captions are cut after 512 tokens, or at the length of
    the model. Six digits. Other items of a batch may change a value by 1e-5 in fp32, by 0.02 in
    bf16 and fp16. ``decode``: see classify. Source: BLIP (Li et al. 2022). Data-Juicer's
    image_text_matching_score, softmax(itm_score)[1], is the same number except for rounding, with
    decode="exact".
    """

    model: str = "Salesforce/blip-itm-base-coco"
    precision: Precision = "auto"
    caption: str = ""
    reduce: Reduce = "mean"
    flip: Flip = ""

    def main_model(self) -> ImageTextMatcher:
        return ImageTextMatcher(model=self.model, precision=used(self.precision))

    def requests(self, view: View) -> list[Request]:
        """Return a request for each picture with each caption, caption by caption."""
        model, prepare = self.main_model(), hub.preparation(self.model, self.flip, self.decode)
        captions = self.captions(view, self.caption)
        pictures = self.pictures(view, model, prepare)
        return [
            Request(model, (picture.key, self.flip, text), partial(self._pair, picture, text))
            for text in captions
            for picture in pictures
        ]

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        rest, values = iter(outputs), []
        for _ in self.captions(view, self.caption):
            shares = list(islice(rest, sum(self.counts(view))))
            values.append(round(reduced(shares, self.reduce), 6))
        return bare([*values])

    def _pair(self, picture: Request, text: str) -> Item:
        import numpy as np

        ids = token_ids(self.model, text, hub.longest(self.model, _MOST_TOKENS))
        return picture.make(), np.array(ids, np.int32)


# name: (model in the hub, number of the label)
PRESETS = {
    "nsfw": ("Falconsai/nsfw_image_detection", "1"),
    "watermark": ("amrul-hzz/watermark_detector", "1"),
}


@dataclass(frozen=True, kw_only=True)
class Classify(
    TransformerScore,
    PictureScore,
    name="classify",
    subject="image",
    scale_tolerance=SEEN_PIXELS,
    cpu_seconds=0.4,
):
    """Probability of a label of an image, by any image classifier of transformers: from 0 to 1.

    ``model`` is a name in the hub, "name@revision", a folder, or "nsfw"
    (Falconsai/nsfw_image_detection) or "watermark" (amrul-hzz/watermark_detector); ``label`` is a
    name or a number of one of its labels; the last two have a default. Softmax over the labels; a
    sigmoid if several labels may fit by the model's configuration; the number itself if the model
    has one label. One value for each image, or the mean over frames of each video (``frames``,
    ``sampling``, ``reduce``) if the sample has no image. With decode="exact", the model's own
    processor prepares images. With "fast", if that processor only resizes them, images are decoded
    at a reduced scale and resized by Pillow: see tolerance. Six digits. Other items of a batch may
    change a value by 1e-5 in fp32, by 0.02 in bf16 and fp16. Source: transformers'
    AutoModelForImageClassification. Data-Juicer's image_nsfw_score and image_watermark_prob are the
    same numbers except for rounding, with decode="exact".
    """

    model: str = "nsfw"
    label: str = ""
    precision: Precision = "auto"
    reduce: Reduce = "mean"

    def main_model(self) -> ImageClassifier:
        return ImageClassifier(
            model=PRESETS.get(self.model, (self.model,))[0], precision=used(self.precision)
        )

    def _label(self) -> str:
        return self.label or PRESETS.get(self.model, ("", ""))[1]

    def _place(self) -> int:
        """Return the place of the label. Raises ValueError if the model has no such label."""
        return hub.label_index(self.main_model().model, self._label())

    def preparation(self) -> PreparesPicture:
        self._place()
        return hub.preparation(self.main_model().model, how=self.decode)

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        place = self._place()
        return self.over_frames(view, outputs, lambda output: output[place], self.reduce)

    def settings(self) -> dict[str, object]:
        return {**super().settings(), "label": self._label()}

    @property
    def keeps_small(self) -> bool:
        return self.model in PRESETS


@dataclass(frozen=True, kw_only=True)
class TextClassify(TransformerScore, CaptionModelScore, name="text_classify", cpu_seconds=0.05):
    """Probability of a label of a caption, by any text classifier of transformers: from 0 to 1.

    ``model`` is a name in the hub, "name@revision" or a folder; ``label`` a name or a number of one
    of its labels. Softmax over the labels; a sigmoid if several labels may fit by the model's
    configuration; the number itself if the model has one label. Captions are cut after
    ``max_tokens``, or at the length of the model. One value for each caption. Six digits. Other
    items of a batch may change a value by 1e-5 in fp32, by 0.02 in bf16 and fp16. Source:
    transformers' AutoModelForSequenceClassification.
    """

    model: str = ""
    label: str = ""
    max_tokens: int = 512
    precision: Precision = "auto"
    caption: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model or self.max_tokens < 1:
            raise ValueError(
                "text_classify needs model='org/name' or a folder, and label='...'; max_tokens must be at least 1"
            )

    def main_model(self) -> TextClassifier:
        return TextClassifier(
            model=self.model, precision=used(self.precision), max_tokens=self.max_tokens
        )

    def requests(self, view: View) -> list[Request]:
        # Raises if there is no such label.
        hub.label_index(self.model, self.label)
        return super().requests(view)

    def item(self, text: str) -> Item:
        import numpy as np

        return np.array(
            token_ids(self.model, text, hub.longest(self.model, self.max_tokens)), np.int32
        )

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        place = hub.label_index(self.model, self.label)
        return bare([round(finite(output[place]), 6) for output in outputs])


@dataclass(frozen=True, kw_only=True)
class CaptionPerplexity(
    TransformerScore,
    CaptionModelScore,
    name="caption_perplexity",
    low=1,
    small_is_good=True,
    cpu_seconds=0.1,
):
    """Perplexity of the caption under a causal language model: from 1 on; low for plain sentences, high for noise.

    The exponential of the mean negative log likelihood of its tokens, each given those before it.
    The first is given the token that begins a text (otherwise the one that ends it), so a caption
    of one token has a value too. A caption without tokens is an error ("empty-caption"), as is a
    caption of one token under a model with neither. ``model`` is a name in the hub, "name@revision"
    or a folder. Captions are cut after ``max_tokens``, or at the length of the model. One value for
    each caption. Six significant digits. Other items of a batch may change a value by a part of
    1e-4 in fp32, of 0.05 in bf16 and fp16. Source: transformers' AutoModelForCausalLM.
    Data-Juicer's perplexity is another number (an n-gram model, log 10).
    """

    model: str = "openai-community/gpt2"
    max_tokens: int = 512
    precision: Precision = "auto"
    caption: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model or self.max_tokens < 2:
            raise ValueError(
                "caption_perplexity needs model='org/name' or a folder; max_tokens must be at least 2"
            )

    def main_model(self) -> LanguageModel:
        return LanguageModel(
            model=self.model, precision=used(self.precision), max_tokens=self.max_tokens
        )

    def item(self, text: str) -> Item:
        import numpy as np

        start, most = hub.text_facts(self.model).start, hub.longest(self.model, self.max_tokens)
        first = [] if start is None else [start]
        ids = token_ids(self.model, text, most - len(first), special=False)
        if not ids or len(first) + len(ids) < 2:
            raise ScoreError(
                "empty-caption", f"{text[:60]!r} has {len(ids)} tokens: too few for a value"
            )
        return np.array([*first, *ids], np.int32)

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        # The exponential of more than about 709 is not a float.
        return bare([float(f"{math.exp(min(finite(output), 700)):.6g}") for output in outputs])
