"""The perplexity of a caption under a language model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from ..base import ScoreError, Subject, Value, bare
from ..sample_view import View
from .model_score import Model, ModelScore, Output, Precision, Request
from .models.clip.clip_weights import source_of
from .models.language_model import LanguageModel
from .models.pairs import finite

_MOST = 700  # nats; the exponential of more is not a float


@dataclass(frozen=True, kw_only=True)
class CaptionPerplexity(ModelScore):
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
    needs: ClassVar[tuple[str, ...]] = ("transformers",)
    packages: ClassVar[tuple[str, ...]] = ("transformers", "torch")

    model: str = "openai-community/gpt2"
    max_tokens: int = 512
    precision: Precision = "fp32"
    caption: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model or self.max_tokens < 2:
            raise ValueError("caption_perplexity needs model='org/name' or a folder; max_tokens must be at least 2")

    def _model(self) -> LanguageModel:
        return LanguageModel(model=self.model, precision=self.precision, max_tokens=self.max_tokens)

    def models(self) -> tuple[Model, ...]:
        """Return the language model."""
        return (self._model(),)

    def requests(self, view: View) -> list[Request]:
        """Return a request for each caption."""
        model = self._model()
        return [Request(model, text, partial(self._ids, text)) for text in view.captions(self.caption)]

    def _ids(self, text: str) -> Any:
        import numpy as np

        from .models.model_texts import longest, text_facts, token_ids

        start, most = text_facts(self.model).start, longest(self.model, self.max_tokens)
        first = [] if start is None else [start]
        ids = token_ids(self.model, text, most - len(first), special=False)
        if not ids or len(first) + len(ids) < 2:
            raise ScoreError("empty-caption", f"{text[:60]!r} has {len(ids)} tokens: too few for a value")
        return np.array([*first, *ids], np.int32)

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        """Return the perplexity of each caption."""
        return bare([float(f"{math.exp(min(finite(output), _MOST)):.6g}") for output in outputs])

    def settings(self) -> dict[str, Any]:
        """Return the settings; a folder by its contents."""
        return {**super().settings(), "model": source_of(self.model)}
