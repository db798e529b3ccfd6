"""Classification of images by texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...base import SEEN_PIXELS, Value
from ..model import Model, Output
from ..model_score import Request
from ..pictures.reduced import Reduce
from .clip_score import ClipTextScore
from .towers import ClipLabels

if TYPE_CHECKING:
    from ...sample_view import View

# Logit scale of OpenAI's models, and the limit of others.
_SCALE = 100
# Labels at most: their embeddings travel with each batch.
_MOST_LABELS = 100


@dataclass(frozen=True, kw_only=True)
class ZeroShot(
    ClipTextScore, name="zero_shot", low=0, high=1, subject="image", scale_tolerance=SEEN_PIXELS
):
    """Probability, from 0 to 1, that an image fits the first of ``labels``, not another one.

    ``labels`` are texts with semicolons between: "a photo of a dog;a drawing of a dog;a text". The
    value is the first of softmax(100 * cosine) over them. One value for each image, or the mean
    over frames of each video (``frames``, ``sampling``, ``reduce``) if the sample has no image.
    ``processor``: see clip_similarity. Six digits. Other items of a batch may change a value by
    1e-4 in fp32, by 0.2 in bf16 and fp16; embeddings from a ledger, half floats, by 0.03. On
    photographs, decode="fast" changed it by at most 0.002 for a ViT-B-32 with random weights. If
    two labels are about equally likely, 0.01 of cosine is 0.25 of probability. Source: CLIP
    (Radford et al. 2021), section 3.1.
    """

    labels: str = ""
    reduce: Reduce = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        texts = self._texts()
        if not 2 <= len(texts) <= _MOST_LABELS or len(set(texts)) < len(texts):
            raise ValueError(
                f"zero_shot needs 2 to {_MOST_LABELS} different labels: labels='a photo;a drawing'"
            )

    def _texts(self) -> tuple[str, ...]:
        texts = [part.strip() for part in self.labels.split(";")]
        return tuple(text for text in texts if text)

    def _label_model(self) -> ClipLabels:
        return self.tower(ClipLabels, labels=self._texts(), tokenizer=self.processor)

    def models(self) -> tuple[Model, ...]:
        return self.main_model(), self._label_model()

    def requests(self, view: "View") -> list[Request]:
        """Return a request for the labels, then one for each image."""
        return [Request(self._label_model(), "labels", lambda: None), *self.image_requests(view)]

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        import numpy as np

        labels, *images = outputs

        def share(image: Output) -> float:
            logits = _SCALE * (labels @ image).astype(np.float64)
            shares = np.exp(logits - logits.max())
            return float(shares[0] / shares.sum())

        return self.values_over_frames(view, images, share, self.reduce)
