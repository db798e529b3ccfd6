"""Any image classifier of transformers as a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..model_score import Item, Output
from .geometry import Geometry
from .labels import labels_of, probabilities, remember_labels
from .transformer import TransformerModel


@dataclass(frozen=True, kw_only=True)
class ImageClassifier(TransformerModel):
    """From what ``preparation`` gives to the probabilities of all labels, float32 (labels)."""

    kind: ClassVar[str] = "transformers image classifier"
    packages: ClassVar[tuple[str, ...]] = ("torch", "transformers", "pillow", "simplejpeg")
    loads: ClassVar[str] = "AutoModelForImageClassification"

    def run(self, loaded: Any, batch: Sequence[Item]) -> Sequence[Output]:
        """Return an array for each picture."""
        from .processors import values

        pixels = values(self.model, batch, str(loaded.device)).to(loaded.dtype)
        return probabilities(loaded(pixel_values=pixels).logits, loaded.config)

    def facts(self) -> tuple[dict[int, str], Geometry | None]:
        """Return what decoders have to know: the labels, and to what size pictures are squeezed."""
        from .processors import squeezed_to

        return labels_of(self.model), squeezed_to(self.model)

    def recall(self, facts: tuple[dict[int, str], Geometry | None]) -> None:
        """Keep it."""
        from .processors import remember_geometry

        remember_labels(self.model, facts[0])
        remember_geometry(self.model, facts[1])

    def cost(self, item: Item) -> int:
        """Return the pixels."""
        return int(item.shape[1] * item.shape[2])

    def largest(self) -> Item | None:
        """Return a black picture where all have the same size."""
        import numpy as np

        from .prepare import Prepare
        from .processors import preparation

        prepare = preparation(self.model)
        return np.zeros((3, *prepare.geometry.size), np.uint8) if isinstance(prepare, Prepare) else None
