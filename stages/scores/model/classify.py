"""The probability of a label of an image."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..base import SEEN_PIXELS, Subject, Tolerance, Value, bare
from ..sample_view import View
from ..video.video_pictures import PictureScore
from .model_score import Model, Output, Precision, Request
from .models.clip.clip_weights import source_of
from .models.image_classifier import ImageClassifier
from .models.labels import label_index
from .models.pairs import finite, reduced

# name: (model in the hub, number of the label)
PRESETS = {"nsfw": ("Falconsai/nsfw_image_detection", "1"), "watermark": ("amrul-hzz/watermark_detector", "1")}


@dataclass(frozen=True, kw_only=True)
class Classify(PictureScore):
    """Probability of a label of an image, by any image classifier of transformers: from 0 to 1.

    ``model`` is a name in the hub, "name@revision", a folder, or "nsfw" (Falconsai/nsfw_image_detection) or "watermark"
    (amrul-hzz/watermark_detector); ``label`` is a name or a number of one of its labels; the last two have a default.
    Softmax over the labels; a sigmoid if several labels may fit by the model's configuration; the number itself if the
    model has one label. One value for each image, or the mean over frames of each video (``frames``, ``sampling``,
    ``reduce``) if the sample has no image. With decode="exact", the model's own processor prepares images. With "fast",
    if that processor only resizes them, images are decoded at a reduced scale and resized by Pillow: see tolerance. Six
    digits. Other items of a batch may change a value by 1e-5 in fp32, by 0.02 in bf16 and fp16. Source: transformers'
    AutoModelForImageClassification. Data-Juicer's image_nsfw_score and image_watermark_prob are the same numbers except
    for rounding, with decode="exact".
    """

    name: ClassVar[str] = "classify"
    subject: ClassVar[Subject] = "image"
    scale_tolerance: ClassVar[Tolerance | None] = SEEN_PIXELS
    needs: ClassVar[tuple[str, ...]] = ("transformers",)
    packages: ClassVar[tuple[str, ...]] = ("transformers", "torch")

    model: str = "nsfw"
    label: str = ""
    precision: Precision = "fp32"
    reduce: Literal["mean", "max", "min"] = "mean"

    def _model(self) -> ImageClassifier:
        return ImageClassifier(model=PRESETS.get(self.model, (self.model,))[0], precision=self.precision)

    def _label(self) -> str:
        return self.label or PRESETS.get(self.model, ("", ""))[1]

    def models(self) -> tuple[Model, ...]:
        """Return the classifier."""
        return (self._model(),)

    def requests(self, view: View) -> list[Request]:
        """Return a request for each image. Raises ValueError if the model has no such label."""
        from .models.processors import preparation

        model = self._model()
        label_index(model.model, self._label())
        prepare = preparation(model.model, how=self.decode)
        return [Request(model, key, make) for key, make in self.pictures(view, self.fields_of(view), prepare)]

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        """Return the probability for each image."""
        place = label_index(self._model().model, self._label())
        groups = self.grouped(view, outputs)
        return bare([round(reduced([finite(each[place]) for each in group], self.reduce), 6) for group in groups])

    def settings(self) -> dict[str, Any]:
        """Return the settings; a folder by its contents."""
        return {**super().settings(), "model": source_of(self._model().model), "label": self._label()}
