"""Any causal language model of transformers as a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..model_score import Item, Output
from .model_fact import ModelFact
from .model_texts import text_facts
from .transformer import TokenModel


@dataclass(frozen=True, kw_only=True)
class LanguageModel(TokenModel):
    """From token ids, int32, to the mean negative log likelihood (nats) of all but the first of them, a float."""

    kind: ClassVar[str] = "transformers language model"
    loads: ClassVar[str] = "AutoModelForCausalLM"
    facts_shared: ClassVar[tuple[ModelFact[Any], ...]] = (text_facts,)

    def run(self, loaded: Any, batch: Sequence[Item]) -> Sequence[Output]:
        """Return a number for each text."""
        from torch.nn.functional import cross_entropy

        from .padding import padded

        inputs = padded(batch, str(loaded.device))
        logits = loaded(**inputs, use_cache=False).logits
        found = []
        for row, tokens in enumerate(batch):  # one by one: a second copy of all logits in float32 would double the peak
            last = len(tokens) - 1
            loss = cross_entropy(logits[row, :last].float(), inputs["input_ids"][row, 1 : last + 1])
            found.append(float(loss))
        return found
