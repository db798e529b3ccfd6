"""The perplexity of captions under a causal language model of transformers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from wdsflow.memory.precision import Precision, used_precision

from ...base import ScoreError, Value, single_or_list
from ...sample_view import View
from ..model import Item, Loaded, Output
from ..model_score import CaptionModelScore
from ..pictures.reduced import finite
from .captions import padded, text_facts, token_ids, token_limit
from .transformer_model import TokenModel, TransformerScore


@dataclass(frozen=True, kw_only=True)
class LanguageModel(
    TokenModel,
    kind="transformers language model",
    loads="AutoModelForCausalLM",
    facts_shared=(text_facts,),
):
    """From token ids, int32, to their mean negative log likelihood (nats), a float.

    The first token is not counted.
    """

    def run(self, loaded: Loaded, batch: Sequence[Item]) -> Sequence[Output]:
        from torch.nn.functional import cross_entropy

        inputs = padded(batch, str(loaded.device))
        logits = loaded(**inputs, use_cache=False).logits
        losses = []
        # One at a time: a float32 copy of all logits would double peak memory.
        for row, tokens in enumerate(batch):
            predictions = logits[row, : len(tokens) - 1].float()
            targets = inputs["input_ids"][row, 1 : len(tokens)]
            losses.append(float(cross_entropy(predictions, targets)))
        return losses


@dataclass(frozen=True, kw_only=True)
class CaptionPerplexity(
    TransformerScore,
    CaptionModelScore,
    name="caption_perplexity",
    low=1,
    small_is_good=True,
    cpu_seconds=0.1,
):
    """Perplexity of the caption under a causal language model, from 1 on.

    It is low for plain sentences, high for noise.

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
            model=self.model, precision=used_precision(self.precision), max_tokens=self.max_tokens
        )

    def item(self, text: str) -> Item:
        import numpy as np

        start = text_facts(self.model).start
        first = [] if start is None else [start]
        most = token_limit(self.model, self.max_tokens) - len(first)
        ids = token_ids(self.model, text, most, special=False)
        # The first token has no likelihood of its own.
        if not ids or len(first) + len(ids) < 2:
            raise ScoreError(
                "empty-caption", f"{text[:60]!r} has {len(ids)} tokens: too few for a value"
            )
        return np.array([*first, *ids], np.int32)

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        return single_or_list([_perplexity(output) for output in outputs])


def _perplexity(likelihood: float) -> float:
    """Return the exponential of a mean negative log likelihood, with six significant digits."""
    # The exponential of more than about 709 is not a float.
    value = math.exp(min(finite(likelihood), 700))
    return float(f"{value:.6g}")
