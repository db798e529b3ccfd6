"""Base of model scores of pictures: of images, or of frames of videos."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from ..base import versions_of
from ..score_errors import ScoreError
from ..video_frames import How, Prepares, Sampling
from .model_score import ModelScore, Output

if TYPE_CHECKING:
    from ..sample_view import View


class ModelPicture(NamedTuple):
    """A picture that a model looks at. ``key``: its field and how it is decoded, or which frame it is of a video."""

    key: tuple[Hashable, ...]
    make: Callable[[], Any]


class PreparesPicture(Prepares, Protocol):
    """Prepares pictures for a model: encoded images, and frames."""

    def __call__(self, data: bytes, budget: int) -> Any:
        """Return an array for an image."""


@dataclass(frozen=True, kw_only=True)
class PictureScore(ModelScore):
    """A score of a sample's images, or of frames of its videos where it has no image.

    Settings of all of them: ``image`` and ``video`` name the only fields to use. ``frames``: number of frames of a
    video; ``sampling``: "uniform" over its duration, or "key" frames, of which 0 stands for all. ``decode``: "fast"
    decodes a large image at a reduced scale, "exact" at its full size; frames always have theirs.
    """

    image: str = ""
    video: str = ""
    frames: int = 3
    sampling: How = "uniform"
    decode: Literal["fast", "exact"] = "fast"

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        super().__post_init__()
        if self.image and self.video:
            raise ValueError(f"{self.name}: give image or video; one value cannot be of both")
        self.sampled.checked(self.name)

    @property
    def scale(self) -> str:
        """Which part of an image's key says how it is decoded."""
        return "" if self.decode == "fast" else self.decode

    @property
    def sampled(self) -> Sampling:
        """Which frames of a video are looked at."""
        return Sampling(self.sampling, self.frames)

    def versions(self) -> dict[str, Any]:
        """Return the versions of the libraries that decide a value; PyAV's where it is installed."""
        return {**super().versions(), **versions_of("av")}

    def image_fields(self, view: "View") -> tuple[str, ...]:
        """Return the images that are looked at, none if videos are. Raises ScoreError if there is neither."""
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

    def fields_of(self, view: "View") -> tuple[str, ...]:
        """Return the fields that are looked at: images, else videos. Raises ScoreError."""
        return self.image_fields(view) or view.video_names(self.video)

    def pictures(self, view: "View", names: Sequence[str], prepare: PreparesPicture) -> list[ModelPicture]:
        """Return the pictures of some fields, prepared for a model: of a video a frame at a time, and only that is kept."""
        if self.image_fields(view):
            return [ModelPicture((name, self.scale), partial(view.prepared, name, prepare)) for name in names]
        found = []
        for name in names:
            frames = view.frames(name, self.sampled, prepare)
            makes = (partial(frames.__getitem__, number) for number in range(len(frames)))
            found += [ModelPicture((name, *self.sampled, number), make) for number, make in enumerate(makes)]
        return found

    def grouped(self, view: "View", outputs: Sequence[Output], names: Sequence[str] | None = None) -> list[list[Any]]:
        """Return the outputs for each image, one each, or for each video, one for each frame."""
        if self.image_fields(view):
            return [[output] for output in outputs]
        left = iter(outputs)
        videos = view.video_names(self.video) if names is None else names
        return [list(islice(left, view.frame_count(name, self.sampled))) for name in videos]
