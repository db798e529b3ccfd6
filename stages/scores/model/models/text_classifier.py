"""Any text classifier of transformers as a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

from ..model_score import Item, Output
from .labels import labels_of, probabilities
from .model_texts import longest, text_facts
from .told import Told
from .transformer import TransformerModel


@dataclass(frozen=True, kw_only=True)
class TextClassifier(TransformerModel):
    """From token ids, int32, to the probabilities of all labels, float32 (labels)."""

    kind: ClassVar[str] = "transformers text classifier"
    loads: ClassVar[str] = "AutoModelForSequenceClassification"
    tells: ClassVar[tuple[Told[Any], ...]] = (text_facts, labels_of)

    max_tokens: int = 512

    def run(self, loaded: Any, batch: Sequence[Item]) -> Sequence[Output]:
        """Return an array for each text."""
        from .padding import padded

        config = loaded.config
        known = config.pad_token_id
        # Causal models look for the last token that is no padding: without any it has to be one that no text has.
        fill = next(number for number in count() if not any(number in ids for ids in batch)) if known is None else known
        config.pad_token_id = fill
        try:
            return probabilities(loaded(**padded(batch, str(loaded.device), fill)).logits, config)
        finally:
            config.pad_token_id = known

    def cost(self, item: Item) -> int:
        """Return the tokens."""
        return len(item)

    def largest(self) -> Item:
        """Return a text of as many tokens as there may be."""
        import numpy as np

        return np.ones(longest(self.model, self.max_tokens), np.int32)
