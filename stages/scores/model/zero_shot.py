"""How well an image fits one of several descriptions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ..base import SEEN_PIXELS, Subject, Tolerance, Value, bare
from ..sample_view import View
from .model_score import Model, Output, Request
from .models.clip.clip_model import ClipLabels
from .models.clip.clip_score import ClipTextScore
from .models.pairs import finite, reduced

_SCALE = 100  # logit scale of all of OpenAI's models, and what others were trained up to
_MOST = 100  # labels: their embeddings travel with each batch


@dataclass(frozen=True, kw_only=True)
class ZeroShot(ClipTextScore):
    """Probability that an image fits the first of ``labels`` rather than one of the others: from 0 to 1.

    ``labels`` are texts with semicolons between: "a photo of a dog;a drawing of a dog;a text". The value is the first
    of softmax(100 * cosine) over them. One value for each image, or the mean over frames of each video (``frames``,
    ``sampling``, ``reduce``) if the sample has no image. ``tokenizer``: see clip_similarity. Six digits. Other items of
    a batch may change a value by 1e-4 in fp32, by 0.2 in bf16 and fp16; embeddings from a ledger, half floats, by 0.03.
    On photographs, decode="fast" changed it by at most 0.002 for a ViT-B-32 with random weights. If two labels are
    about equally likely, 0.01 of cosine is 0.25 of probability. Source: CLIP (Radford et al. 2021), section 3.1.
    """

    name: ClassVar[str] = "zero_shot"
    low: ClassVar[float | None] = 0
    high: ClassVar[float | None] = 1
    subject: ClassVar[Subject] = "image"
    scale_tolerance: ClassVar[Tolerance | None] = SEEN_PIXELS

    labels: str = ""
    reduce: Literal["mean", "max", "min"] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        texts = self._texts()
        if not 2 <= len(texts) <= _MOST or len(set(texts)) < len(texts):
            raise ValueError(f"zero_shot needs 2 to {_MOST} different labels: labels='a photo;a drawing'")

    def _texts(self) -> tuple[str, ...]:
        return tuple(text for each in self.labels.split(";") if (text := each.strip()))

    def _label_model(self) -> ClipLabels:
        return ClipLabels(
            model=self.model,
            pretrained=self.pretrained,
            precision=self.precision,
            labels=self._texts(),
            tokenizer=self.tokenizer,
        )

    def models(self) -> tuple[Model, ...]:
        """Return the image tower, and the labels' embeddings."""
        return self.image_model(), self._label_model()

    def requests(self, view: View) -> list[Request]:
        """Return a request for the labels, then one for each image."""
        labels = Request(self._label_model(), "labels", lambda: None)
        return [labels, *self.image_requests(view, self.fields_of(view))]

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        """Return the probability for each image."""
        import numpy as np

        labels, images = outputs[0], outputs[1:]

        def share(image: Output) -> float:
            logits = _SCALE * (labels @ image).astype(np.float64)
            shares = np.exp(logits - logits.max())
            return finite(float(shares[0] / shares.sum()))

        groups = self.grouped(view, images)
        return bare([round(reduced([share(image) for image in each], self.reduce), 6) for each in groups])
