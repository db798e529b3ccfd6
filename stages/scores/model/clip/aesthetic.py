"""The aesthetic rating of an image."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...base import SEEN_PIXELS, Value
from ..model import Output
from ..model_files import local_path, source_of
from ..pictures.reduced import Reduce
from .aesthetic_head import load_head
from .clip_score import ClipScore

if TYPE_CHECKING:
    from ...sample_view import View


@dataclass(frozen=True, kw_only=True)
class Aesthetic(
    ClipScore, name="aesthetic", subject="image", scale_tolerance=SEEN_PIXELS, cpu_seconds=2
):
    """Aesthetic rating of an image by a head on its CLIP embedding.

    LAION's heads give about 1 to 10.

    ``head`` is a file, a state dict of torch or safetensors: one linear layer, or LAION's five
    (with or without ReLU between, by the names of its layers). ``model`` and ``pretrained`` must be
    those on which the head was trained: "ViT-L-14-quickgelu" and "openai" for LAION's. One value
    for each image, or the mean over frames of each video (``frames``, ``sampling``, ``reduce``) if
    the sample has no image. Four digits. Other items of a batch may change a value by 1e-3 in fp32,
    by 0.1 in bf16 and fp16; embeddings from a ledger, half floats, by 0.0005 times the length of
    the weights of a linear head. Source: LAION-Aesthetics V1 and V2 (improved-aesthetic-predictor).
    Data-Juicer's image_aesthetics_scores is a tenth of it for the predictors named
    shunk031/aesthetics-predictor, with processor="hf" and decode="exact": see clip_similarity.
    """

    head: str = ""
    reduce: Reduce = "mean"
    model: str = "ViT-L-14-quickgelu"

    def __post_init__(self) -> None:
        super().__post_init__()
        path = local_path(self.head)
        if path is None or not path.is_file():
            raise ValueError(
                "aesthetic needs head='/path/of/weights.pth', a linear head or LAION's"
            )

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        """Return the rating of each image. Raises ValueError if the head is not for this model."""
        return self.values_over_frames(view, outputs, load_head(self.head), self.reduce, digits=4)

    def settings(self) -> dict[str, object]:
        return {**super().settings(), "head": source_of(self.head)}
