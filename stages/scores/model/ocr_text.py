"""The text in a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..base import Kind, Subject, Value, bare
from .model_score import Output
from .ocr.line_reading import ReadScore

if TYPE_CHECKING:
    from ..sample_view import View


@dataclass(frozen=True, kw_only=True)
class OcrText(ReadScore):
    """Text that is read in the image, "" if there is none; of a video, in its first, middle and last frame.

    Lines of EasyOCR in its order, joined by a space; frames of a video by a line break, frames with the same text once.
    ``confidence``: lines below it are left out. ``language`` is English ("en") by default; others need the weights of
    another ``network``. ``frames``: number of frames of a video; ``sampling``: "uniform" over its duration, or "key"
    frames, of which 0 stands for all. ``canvas``: pixels of the longer side, at most. ``weights``: the folder of
    EasyOCR's weights, "" for those of the extra ``ocr``. ``decode``: see ocr_area. Source: EasyOCR's ``readtext``, not
    quantised.
    """

    name: ClassVar[str] = "ocr_text"
    kind: ClassVar[Kind] = "text"
    subject: ClassVar[Subject] = "image"

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        """Return the text of each image, or of each video."""
        return bare([*self.texts(view, outputs)])
