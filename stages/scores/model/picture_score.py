"""Base of model scores of pictures: of images, or of frames of videos. Which images go with which captions."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol

from ..base import ScoreError
from ..videos import How, Prepares, Sampling
from .model_score import Item, ModelScore, Output

if TYPE_CHECKING:
    from ..sample_view import View


Reduce = Literal["mean", "max", "min"]
Flip = Literal["", "horizontal", "vertical", "both"]
Pair = tuple[str, tuple[str, ...]]  # a caption, and the fields that are its images


class ModelPicture(NamedTuple):
    """A picture for a model. ``key``: its field and how it is decoded, or which frame of a video it is."""

    key: tuple[Hashable, ...]
    make: Callable[[], Item]


class PreparesPicture(Prepares, Protocol):
    """Prepares pictures for a model: encoded images, and frames."""

    def __call__(self, data: bytes, budget: int) -> Item:
        """Return an array for an image."""


@dataclass(frozen=True, kw_only=True)
class PictureScore(ModelScore):
    """A score of a sample's images, or of frames of its videos if it has no image.

    Common settings: ``image`` and ``video`` name the only fields to use. ``frames``: number of frames of a video;
    ``sampling``: "uniform" over its duration, or "key" frames, of which 0 stands for all. ``decode``: "fast" decodes a
    large image at a reduced scale, "exact" at its full size; frames always have theirs.
    """

    optional: ClassVar[tuple[str, ...]] = ("av",)

    image: str = ""
    video: str = ""
    frames: int = 3
    sampling: How = "uniform"
    decode: Literal["fast", "exact"] = "fast"

    def __post_init__(self) -> None:
        """Refuse contradictory settings."""
        super().__post_init__()
        if self.image and self.video:
            raise ValueError(f"{self.name}: give image or video; one value cannot be of both")
        self.sampled.checked(self.name)

    @property
    def scale(self) -> str:
        """The part of an image's key that distinguishes how it is decoded."""
        return "" if self.decode == "fast" else self.decode

    @property
    def sampled(self) -> Sampling:
        """Which frames of a video are used."""
        return Sampling(self.sampling, self.frames)

    def image_fields(self, view: "View") -> tuple[str, ...]:
        """Return the images to use, none if videos are used. Raises ScoreError if there is neither."""
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

    def fields_of(self, view: "View") -> tuple[str, ...]:
        """Return the fields to use: images, otherwise videos. Raises ScoreError."""
        return self.image_fields(view) or view.video_names(self.video)

    def pairs(self, view: "View", caption: str) -> list[Pair]:
        """Return each caption with its images, or its videos. Raises ScoreError if there are none of either."""
        if self.image_fields(view):
            return view.pairs(caption, self.image)
        return view.video_pairs(caption, self.video)

    def pictures(self, view: "View", names: Sequence[str], prepare: PreparesPicture) -> list[ModelPicture]:
        """Return the pictures of some fields, prepared for a model; of a video, one frame at a time is decoded."""
        if self.image_fields(view):
            return [ModelPicture((name, self.scale), partial(view.prepared, name, prepare)) for name in names]
        found = []
        for name in names:
            frames = view.frames(name, self.sampled, prepare)
            makes = (partial(frames.__getitem__, number) for number in range(len(frames)))
            found += [ModelPicture((name, *self.sampled, number), make) for number, make in enumerate(makes)]
        return found

    def grouped(
        self, view: "View", outputs: Sequence[Output], names: Sequence[str] | None = None
    ) -> list[list[Output]]:
        """Return the outputs for each image, one each, or for each video, one for each frame."""
        if self.image_fields(view):
            return [[output] for output in outputs]
        left = iter(outputs)
        videos = view.video_names(self.video) if names is None else names
        return [list(islice(left, view.frame_count(name, self.sampled))) for name in videos]


def names_of(found: Sequence[Pair]) -> list[str]:
    """Return the fields in pairs, each once."""
    return list(dict.fromkeys(name for _text, names in found for name in names))


def reduced(values: Sequence[float], reduce: Reduce) -> float:
    """Return the mean, the largest or the smallest. Raises ScoreError for NaN: see ``finite``.

    >>> reduced([1.0, 2.0, 6.0], "mean")
    3.0
    """
    checked = [finite(value) for value in values]
    if reduce == "mean":
        return math.fsum(checked) / len(checked)
    return max(checked) if reduce == "max" else min(checked)


def finite(value: float) -> float:
    """Return the number. Raises ScoreError "not-finite" for NaN and infinities."""
    if not math.isfinite(value):
        raise ScoreError("not-finite", f"the model's answer is {value}; half precision may be too small for it")
    return float(value)
