"""What scores of text in pictures share: whose pictures are looked at, images or frames of videos."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import ScoreError
from ..model import Model, ModelScore, Output, Request
from ..video.sampling import How, Sampling

if TYPE_CHECKING:
    from ..video.frames import Frames
    from ..view import View
    from .canvas import Canvas


@dataclass(frozen=True, kw_only=True)
class OcrScore(ModelScore):
    """A score of the text in a sample's images, or in frames of its videos where it has no image.

    Settings of all of them: ``image`` and ``video`` name fields, and only that is looked at then. ``frames``: of a video,
    how many are looked at; ``sampling``: "uniform" over its duration, or "key" frames, of which 0 stands for all.
    ``canvas``: pixels of the longer side, at most; larger pictures are made smaller first. ``weights``: the folder of
    EasyOCR's weights, "" for those of the extra ``ocr``.
    """

    needs: ClassVar[tuple[str, ...]] = ("ocr",)
    packages: ClassVar[tuple[str, ...]] = ("torch", "easyocr")

    image: str = ""
    video: str = ""
    frames: int = 3
    sampling: How = "uniform"
    canvas: int = 2560
    weights: str = ""

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        super().__post_init__()
        if self.image and self.video:
            raise ValueError(f"{self.name}: give image or video; one value cannot be of both")
        if not 32 <= self.canvas <= 1 << 14:
            raise ValueError(f"{self.name}: canvas={self.canvas}; it has to be 32 to {1 << 14}")
        self._sampled.checked(self.name)

    @property
    def _sampled(self) -> Sampling:
        return Sampling(self.sampling, self.frames)

    @abstractmethod
    def models(self) -> tuple[Model]:
        """Return the model."""

    def requests(self, view: "View") -> list[Request]:
        """Ask for all images, or all frames of all videos."""
        from .canvas import OnCanvas, on_canvas

        (model,) = self.models()
        names = self._images(view)
        if names:
            prepare = OnCanvas(self.canvas)
            return [Request(model, (name,), partial(view.prepared, name, prepare)) for name in names]
        asked = []
        for name in view.video_names(self.video):
            frames = view.frames(name, self._sampled)
            if any(max(each.shape[:2]) > self.canvas for each in frames):  # what waits is bounded by its small size
                canvases: Sequence[Canvas] = [on_canvas(each, self.canvas) for each in frames]
                makes = [partial(canvases.__getitem__, number) for number in range(len(frames))]
            else:
                makes = [partial(_canvas, frames, number, self.canvas) for number in range(len(frames))]
            asked += [Request(model, (name, *self._sampled, number), make) for number, make in enumerate(makes)]
        return asked

    def grouped(self, view: "View", outputs: Sequence[Output]) -> list[list[Any]]:
        """Return the outputs for each image, one each, or for each video, one for each frame."""
        names = self._images(view)
        if names:
            return [[output] for output in outputs]
        left = iter(outputs)
        return [list(islice(left, view.frame_count(name, self._sampled))) for name in view.video_names(self.video)]

    def _images(self, view: "View") -> tuple[str, ...]:
        """Return the images that are looked at, none where videos are. Raises ScoreError where there is neither."""
        if self.video:
            return ()
        try:
            return view.image_names(self.image)
        except ScoreError as error:
            if not self.image:
                try:
                    view.video_names()
                except ScoreError:
                    raise ScoreError("no-image", f"{error.detail}; no video either") from None
                return ()
            raise


def _canvas(frames: "Frames", number: int, side: int) -> "Canvas":
    from .canvas import on_canvas

    return on_canvas(frames[number], side)
