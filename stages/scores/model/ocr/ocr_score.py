"""Base of scores of text in pictures: in images, or in frames of videos."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from ...video.video_pictures import PictureScore
from ..model_score import Request
from .detector import TextDetector

if TYPE_CHECKING:
    from ...sample_view import View
    from ...video.frames import Frames
    from .canvas import Canvas


@dataclass(frozen=True, kw_only=True)
class OcrScore(PictureScore):
    """A score of the text in a sample's images, or in frames of its videos where it has no image.

    Settings of all of them: ``image`` and ``video`` name the only fields to use. ``frames``: number of frames of a
    video; ``sampling``: "uniform" over its duration, or "key" frames, of which 0 stands for all. ``canvas``: pixels of
    the longer side, at most; larger pictures are made smaller first. ``weights``: the folder of EasyOCR's weights, ""
    for those of the extra ``ocr``.
    """

    needs: ClassVar[tuple[str, ...]] = ("ocr",)
    packages: ClassVar[tuple[str, ...]] = ("torch", "easyocr")

    canvas: int = 2560
    weights: str = ""

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        super().__post_init__()
        if not 32 <= self.canvas <= 1 << 14:
            raise ValueError(f"{self.name}: canvas={self.canvas} must be 32 to {1 << 14}")

    @property
    def detector(self) -> TextDetector:
        """The model that finds text, the same for all scores of these settings."""
        return TextDetector(weights=self.weights, canvas=self.canvas)

    def requests(self, view: "View") -> list[Request]:
        """Have text found in all images, or in all frames of all videos."""
        from .canvas import OnCanvas, on_canvas

        model = self.detector
        names = self.image_fields(view)
        if names:
            prepare = OnCanvas(self.canvas, self.decode)
            return [Request(model, (name, self.scale), partial(view.prepared, name, prepare)) for name in names]
        asked = []
        for name in view.video_names(self.video):
            frames = view.frames(name, self.sampled)
            if any(max(each.shape[:2]) > self.canvas for each in frames):  # what waits is bounded by its small size
                canvases: Sequence[Canvas] = [on_canvas(each, self.canvas) for each in frames]
                makes = [partial(canvases.__getitem__, number) for number in range(len(frames))]
            else:
                makes = [partial(_canvas, frames, number, self.canvas) for number in range(len(frames))]
            asked += [Request(model, (name, *self.sampled, number), make) for number, make in enumerate(makes)]
        return asked


def _canvas(frames: "Frames", number: int, side: int) -> "Canvas":
    from .canvas import on_canvas

    return on_canvas(frames[number], side)
