"""Text classifiers of transformers."""

from collections.abc import Sequence
from dataclasses import dataclass

from wdsflow.memory.precision import Precision, used_precision

from ...base import Value, single_or_list
from ...sample_view import View
from ..model import Item, Loaded, Output
from ..model_score import CaptionModelScore, Request
from ..pictures.reduced import finite
from .captions import padded, text_facts, token_ids, token_limit
from .labels import label_index, labels_of, probabilities
from .transformer_model import TokenModel, TransformerScore


@dataclass(frozen=True, kw_only=True)
class TextClassifier(
    TokenModel,
    kind="transformers text classifier",
    loads="AutoModelForSequenceClassification",
    facts_shared=(text_facts, labels_of),
):
    """From token ids, int32, to the probabilities of all labels, float32 (labels)."""

    def run(self, loaded: Loaded, batch: Sequence[Item]) -> Sequence[Output]:
        config = loaded.config
        configured = config.pad_token_id
        # Causal models classify at the last token before the padding.
        fill = _unused_token(batch) if configured is None else configured
        inputs = padded(batch, str(loaded.device), fill)
        config.pad_token_id = fill
        try:
            return probabilities(loaded(**inputs).logits, config.problem_type)
        finally:
            config.pad_token_id = configured


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
            model=self.model, precision=used_precision(self.precision), max_tokens=self.max_tokens
        )

    def requests(self, view: View) -> list[Request]:
        # Raises ValueError if there is no such label.
        label_index(self.model, self.label)
        return super().requests(view)

    def item(self, text: str) -> Item:
        import numpy as np

        limit = token_limit(self.model, self.max_tokens)
        return np.array(token_ids(self.model, text, limit), np.int32)

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        index = label_index(self.model, self.label)
        return single_or_list([round(finite(output[index]), 6) for output in outputs])


def _unused_token(batch: Sequence[Item]) -> int:
    """Return the smallest token that does not occur in a batch."""
    number = 0
    while any(number in ids for ids in batch):
        number += 1
    return number
