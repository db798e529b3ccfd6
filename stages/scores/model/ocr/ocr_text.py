"""The text in an image."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...base import Value, single_or_list
from ...sample_view import View
from ..model import Output
from .ocr_score import ReadScore


@dataclass(frozen=True, kw_only=True)
class OcrText(ReadScore, name="ocr_text", kind="text", subject="image"):
    """Text that is read in the image, "" if there is none.

    In a video, it is read in the first, middle and last frame.

    Lines of EasyOCR in its order, joined by a space; frames of a video by a line break, frames with
    the same text once. ``confidence``: lines below it are left out. ``language`` is English ("en")
    by default; others need the weights of another ``network``. ``frames``: number of frames of a
    video; ``sampling``: "uniform" over its duration, or "key" frames, of which 0 stands for all.
    ``canvas``: pixels of the longer side, at most. ``weights``: the folder of EasyOCR's weights, ""
    for those of the extra ``ocr``. ``decode``: see ocr_area. Source: EasyOCR's ``readtext``, not
    quantised.
    """

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        return single_or_list([*self.texts(view, outputs)])
