"""Any text classifier of transformers as a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

from ..model_score import Item, Output
from .labels import labels_of, probabilities
from .model_fact import ModelFact
from .model_texts import text_facts
from .transformer import TokenModel


@dataclass(frozen=True, kw_only=True)
class TextClassifier(TokenModel):
    """From token ids, int32, to the probabilities of all labels, float32 (labels)."""

    kind: ClassVar[str] = "transformers text classifier"
    loads: ClassVar[str] = "AutoModelForSequenceClassification"
    facts_shared: ClassVar[tuple[ModelFact[Any], ...]] = (text_facts, labels_of)

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
