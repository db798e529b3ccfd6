"""Image classifiers of transformers."""

from collections.abc import Sequence
from dataclasses import dataclass

from wdsflow.memory.precision import Precision, used_precision

from ...base import SEEN_PIXELS, Value
from ...sample_view import View
from ..model import Item, Loaded, Output
from ..pictures.picture_batch import pixel_count
from ..pictures.picture_score import PictureScore, PreparesPicture
from ..pictures.reduced import Reduce
from .labels import label_index, labels_of, probabilities
from .processor import black_picture, pixel_values, preparation, resize_geometry
from .transformer_model import TransformerModel, TransformerScore

# name: (model in the hub, number of the label)
PRESETS = {
    "nsfw": ("Falconsai/nsfw_image_detection", "1"),
    "watermark": ("amrul-hzz/watermark_detector", "1"),
}


@dataclass(frozen=True, kw_only=True)
class ImageClassifier(
    TransformerModel,
    kind="transformers image classifier",
    packages=("torch", "transformers", "pillow", "simplejpeg"),
    loads="AutoModelForImageClassification",
    facts_shared=(labels_of, resize_geometry),
):
    """From pictures of ``preparation`` to the probabilities of all labels, float32 (labels)."""

    def run(self, loaded: Loaded, batch: Sequence[Item]) -> Sequence[Output]:
        pixels = pixel_values(self.model, batch, str(loaded.device)).to(loaded.dtype)
        logits = loaded(pixel_values=pixels).logits
        return probabilities(logits, loaded.config.problem_type)

    def cost(self, item: Item) -> int:
        return pixel_count(item)

    def largest(self) -> Item | None:
        return black_picture(self.model)


@dataclass(frozen=True, kw_only=True)
class Classify(
    TransformerScore,
    PictureScore,
    name="classify",
    subject="image",
    scale_tolerance=SEEN_PIXELS,
    cpu_seconds=0.4,
):
    """Probability of a label of an image, by any image classifier of transformers: from 0 to 1.

    ``model`` is a name in the hub, "name@revision", a folder, or "nsfw"
    (Falconsai/nsfw_image_detection) or "watermark" (amrul-hzz/watermark_detector); ``label`` is a
    name or a number of one of its labels; the last two have a default. Softmax over the labels; a
    sigmoid if several labels may fit by the model's configuration; the number itself if the model
    has one label. One value for each image, or the mean over frames of each video (``frames``,
    ``sampling``, ``reduce``) if the sample has no image. With decode="exact", the model's own
    processor prepares images. With "fast", if that processor only resizes them, images are decoded
    at a reduced scale and resized by Pillow: see tolerance. Six digits. Other items of a batch may
    change a value by 1e-5 in fp32, by 0.02 in bf16 and fp16. Source: transformers'
    AutoModelForImageClassification. Data-Juicer's image_nsfw_score and image_watermark_prob are the
    same numbers except for rounding, with decode="exact".
    """

    model: str = "nsfw"
    label: str = ""
    precision: Precision = "auto"
    reduce: Reduce = "mean"

    def main_model(self) -> ImageClassifier:
        model = PRESETS[self.model][0] if self.model in PRESETS else self.model
        return ImageClassifier(model=model, precision=used_precision(self.precision))

    def preparation(self) -> PreparesPicture:
        # Raises ValueError if there is no such label.
        self._label_index()
        return preparation(self.main_model().model, scale=self.decode)

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        index = self._label_index()
        return self.values_over_frames(view, outputs, lambda output: output[index], self.reduce)

    def settings(self) -> dict[str, object]:
        return {**super().settings(), "label": self._label()}

    @property
    def keeps_small(self) -> bool:
        return self.model in PRESETS

    def _label(self) -> str:
        """Return the label, by default that of the preset."""
        if not self.label and self.model in PRESETS:
            return PRESETS[self.model][1]
        return self.label

    def _label_index(self) -> int:
        """Return the index of the label. Raises ValueError if the model has no such label."""
        return label_index(self.main_model().model, self._label())
