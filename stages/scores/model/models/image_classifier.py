"""Any image classifier of transformers as a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..model_score import Item, Output
from .labels import labels_of, probabilities
from .model_fact import ModelFact
from .plain_resize import squeezed_to
from .transformer import TransformerModel


@dataclass(frozen=True, kw_only=True)
class ImageClassifier(TransformerModel):
    """From what ``preparation`` gives to the probabilities of all labels, float32 (labels)."""

    kind: ClassVar[str] = "transformers image classifier"
    packages: ClassVar[tuple[str, ...]] = ("torch", "transformers", "pillow", "simplejpeg")
    loads: ClassVar[str] = "AutoModelForImageClassification"
    facts_shared: ClassVar[tuple[ModelFact[Any], ...]] = (labels_of, squeezed_to)

    def run(self, loaded: Any, batch: Sequence[Item]) -> Sequence[Output]:
        """Return an array for each picture."""
        from .processors import values

        pixels = values(self.model, batch, str(loaded.device)).to(loaded.dtype)
        return probabilities(loaded(pixel_values=pixels).logits, loaded.config)

    def cost(self, item: Item) -> int:
        """Return the pixels."""
        return int(item.shape[1] * item.shape[2])

    def largest(self) -> Item | None:
        """Return a black picture where all have the same size."""
        from .processors import black_picture

        return black_picture(self.model)
