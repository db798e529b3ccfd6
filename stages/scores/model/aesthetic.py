"""An aesthetic rating of an image."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..base import SEEN_PIXELS, Subject, Tolerance, Value, bare
from ..sample_view import View
from .model_score import Model, Output, Request
from .models.clip.clip_score import ClipScore
from .models.clip.clip_weights import local_path, source_of
from .models.head import load_head
from .models.pairs import finite, reduced


@dataclass(frozen=True, kw_only=True)
class Aesthetic(ClipScore):
    """Aesthetic rating of an image by a head on its CLIP embedding: about 1 to 10 for LAION's heads.

    ``head`` is a file, a state dict of torch or safetensors: one linear layer, or LAION's five (with or without ReLU
    between, by the names of its layers). ``model`` and ``pretrained`` must be those on which the head was trained:
    "ViT-L-14-quickgelu" and "openai" for LAION's. One value for each image, or the mean over frames of each video
    (``frames``, ``sampling``, ``reduce``) if the sample has no image. Four digits. Other items of a batch may change a
    value by 1e-3 in fp32, by 0.1 in bf16 and fp16; embeddings from a ledger, half floats, by 0.0005 times the length of
    the weights of a linear head. Source: LAION-Aesthetics V1 and V2 (improved-aesthetic-predictor). Data-Juicer's
    image_aesthetics_scores is a tenth of it for the predictors named shunk031/aesthetics-predictor, with
    decode="exact".
    """

    name: ClassVar[str] = "aesthetic"
    subject: ClassVar[Subject] = "image"
    scale_tolerance: ClassVar[Tolerance | None] = SEEN_PIXELS

    head: str = ""
    reduce: Literal["mean", "max", "min"] = "mean"
    model: str = "ViT-L-14-quickgelu"

    def __post_init__(self) -> None:
        super().__post_init__()
        path = local_path(self.head)
        if path is None or not path.is_file():
            raise ValueError("aesthetic needs head='/path/of/weights.pth', a linear head or LAION's")

    def models(self) -> tuple[Model, ...]:
        """Return the image tower."""
        return (self.image_model(),)

    def requests(self, view: View) -> list[Request]:
        """Return a request for each image."""
        return self.image_requests(view, self.fields_of(view))

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        """Return the rating of each image. Raises ValueError if the head is not for this model."""
        head = load_head(self.head)
        groups = self.grouped(view, outputs)
        return bare([round(reduced([finite(head(each)) for each in group], self.reduce), 4) for group in groups])

    def settings(self) -> dict[str, Any]:
        """Return the settings; files by their contents."""
        return {**super().settings(), "head": source_of(self.head)}
