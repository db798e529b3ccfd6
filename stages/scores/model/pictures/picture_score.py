"""Base class of scores of pictures: the images of a sample, or frames of its videos."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from ...base import Scalar, ScoreError, Value, single_or_list
from ...video_frames import Prepares, Sampling, SamplingKind
from ..model import Item, Model, Output
from ..model_score import ModelScore, Request
from .prepare import Scale
from .reduced import Reduce, reduced

if TYPE_CHECKING:
    from ...sample_view import View


class PreparesPicture(Prepares, Protocol):
    """Prepares pictures for a model: encoded images, and frames."""

    def __call__(self, data: bytes, budget: int) -> Item:
        """Return an array for an image."""


@dataclass(frozen=True, kw_only=True)
class PictureScore(ModelScore, optional=("av",)):
    """A score of a sample's images, or of frames of its videos if it has no image.

    Common settings: ``image`` and ``video`` name the only fields to use. ``frames``: number of
    frames of a video; ``sampling``: "uniform" over its duration, or "key" frames, of which 0 stands
    for all. ``decode``: "fast" decodes a large image at a reduced scale, "exact" at its full size;
    frames always have theirs.
    """

    image: str = ""
    video: str = ""
    frames: int = 3
    sampling: SamplingKind = "uniform"
    decode: Scale = "fast"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.image and self.video:
            raise ValueError(f"{self.name}: give image or video; one value cannot be of both")
        if self.sampling == "uniform" and self.frames < 1:
            raise ValueError(f"{self.name}: frames={self.frames}; it has to be at least 1")
        if self.frames < 0:
            raise ValueError(
                f"{self.name}: frames={self.frames}; it has to be at least 1, or 0 for all key frames"
            )

    @property
    def frame_sampling(self) -> Sampling:
        """The choice of frames of a video."""
        return Sampling(self.sampling, self.frames)

    def preparation(self) -> PreparesPicture:
        """Return the function that makes the model's input from a picture."""
        raise NotImplementedError

    def requests(self, view: "View") -> list[Request]:
        return self.picture_requests(view, self.main_model(), self.preparation())

    def image_fields(self, view: "View") -> tuple[str, ...]:
        """Return the image fields to use, none if videos are used.

        Raises ScoreError if there are neither images nor videos.
        """
        if self.video:
            return ()
        try:
            return view.image_names(self.image)
        except ScoreError as error:
            if self.image:
                raise
            try:
                view.video_names()
            except ScoreError:
                raise ScoreError("no-image", f"{error.detail}; no video either") from None
            return ()

    def captions(self, view: "View", caption: str) -> list[str]:
        """Return the captions that go with the images, or the videos.

        Raises ScoreError if there are neither images nor videos.
        """
        if not self.image_fields(view):
            view.video_names(self.video)
        return view.captions(caption)

    def picture_requests(
        self, view: "View", model: Model, prepare: PreparesPicture, *suffix: Hashable
    ) -> list[Request]:
        """Return a request for each picture of the images, or the videos.

        Its key: the field and ``decode`` if it is not "fast", or the field, sampling and number of
        a frame; then ``suffix``.
        """
        images = self.image_fields(view)
        if images:
            scale = "" if self.decode == "fast" else self.decode
            return [
                Request(model, (name, scale, *suffix), partial(view.prepared, name, prepare))
                for name in images
            ]
        requests: list[Request] = []
        for name in view.video_names(self.video):
            frames = view.frames(name, self.frame_sampling, prepare)
            for number in range(len(frames)):
                key = (name, *self.frame_sampling, number, *suffix)
                requests.append(Request(model, key, partial(frames.__getitem__, number)))
        return requests

    def picture_counts(self, view: "View") -> list[int]:
        """Return the number of pictures of each image or video.

        An image has one picture, a video one for each frame.
        """
        if images := self.image_fields(view):
            return [1] * len(images)
        return [
            view.frame_count(name, self.frame_sampling) for name in view.video_names(self.video)
        ]

    def outputs_by_image(self, view: "View", outputs: Sequence[Output]) -> list[list[Output]]:
        """Return the outputs of each image or video.

        An image has one output, a video one for each frame.
        """
        remaining = iter(outputs)
        return [list(islice(remaining, count)) for count in self.picture_counts(view)]

    def values_over_frames(
        self,
        view: "View",
        outputs: Sequence[Output],
        number: Callable[[Output], float],
        reduce: Reduce,
        digits: int = 6,
    ) -> Value:
        """Return the value of each image or video.

        ``number`` converts the output of a picture to its number. The numbers of a video's frames
        are reduced to one by ``reduce``.
        """
        values: list[Scalar] = []
        for group in self.outputs_by_image(view, outputs):
            numbers = [number(output) for output in group]
            values.append(round(reduced(numbers, reduce), digits))
        return single_or_list(values)
