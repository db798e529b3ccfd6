"""The probability of a label of a caption."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from ..base import Subject, Value, bare
from ..sample_view import View
from .model_score import Model, ModelScore, Output, Precision, Request
from .models.clip.clip_weights import source_of
from .models.labels import label_index
from .models.pairs import finite
from .models.text_classifier import TextClassifier


@dataclass(frozen=True, kw_only=True)
class TextClassify(ModelScore):
    """Probability of a label of a caption, by any text classifier of transformers: from 0 to 1.

    ``model`` is a name in the hub, "name@revision" or a folder; ``label`` a name or a number of one of its labels.
    Softmax over the labels; a sigmoid if several labels may fit by the model's configuration; the number itself if the
    model has one label. Captions are cut after ``max_tokens``, or at the length of the model. One value for each
    caption. Six digits. Other items of a batch may change a value by 1e-5 in fp32, by 0.02 in bf16 and fp16. Source:
    transformers' AutoModelForSequenceClassification.
    """

    name: ClassVar[str] = "text_classify"
    subject: ClassVar[Subject] = "caption"
    needs: ClassVar[tuple[str, ...]] = ("transformers",)
    packages: ClassVar[tuple[str, ...]] = ("transformers", "torch")

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

    def _model(self) -> TextClassifier:
        return TextClassifier(model=self.model, precision=self.precision, max_tokens=self.max_tokens)

    def models(self) -> tuple[Model, ...]:
        """Return the classifier."""
        return (self._model(),)

    def requests(self, view: View) -> list[Request]:
        """Return a request for each caption. Raises ValueError if the model has no such label."""
        model = self._model()
        label_index(self.model, self.label)
        return [Request(model, text, partial(self._ids, text)) for text in view.captions(self.caption)]

    def _ids(self, text: str) -> Any:
        import numpy as np

        from .models.model_texts import longest, token_ids

        return np.array(token_ids(self.model, text, longest(self.model, self.max_tokens)), np.int32)

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        """Return the probability for each caption."""
        place = label_index(self.model, self.label)
        return bare([round(finite(output[place]), 6) for output in outputs])

    def settings(self) -> dict[str, Any]:
        """Return the settings; a folder by its contents."""
        return {**super().settings(), "model": source_of(self.model)}
