"""Pictures as the input of models: selects images, or frames of videos, of a sample, and prepares them.

numpy and Pillow are imported on first use.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ...imaging.decoders import upright
from ..base import ScoreError, Value, bare
from ..picture_decoding import decoded
from ..video_frames import Prepares, Sampling, SamplingKind
from .model_score import Item, Model, ModelScore, Output, Request

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

    from ...imaging.boxes import Box
    from ...imaging.torch_kernel import Kernel
    from ..sample_view import View

    Pixels = NDArray[np.uint8]

# Height, width.
Size = tuple[int, int]
Scale = Literal["fast", "exact"]
Reduce = Literal["mean", "max", "min"]
Flip = Literal["", "horizontal", "vertical", "both"]
# A picture that is longer than so many crops is not resized as a whole: a line of pixels would take
# a GB.
_MOST_CROPS = 64


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
        if self.frames < (self.sampling == "uniform"):
            least = (
                "at least 1"
                if self.sampling == "uniform"
                else "at least 1, or 0 for all key frames"
            )
            raise ValueError(f"{self.name}: frames={self.frames}; it has to be {least}")

    @property
    def sampled(self) -> Sampling:
        """The choice of frames of a video."""
        return Sampling(self.sampling, self.frames)

    def preparation(self) -> PreparesPicture:
        """Return the function that makes the model's input from a picture."""
        raise NotImplementedError

    def requests(self, view: "View") -> list[Request]:
        return self.pictures(view, self.main_model(), self.preparation())

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

    def captions(self, view: "View", caption: str) -> list[str]:
        """Return the captions that go with the images, or the videos. Raises ScoreError if there are none of either."""
        if not self.image_fields(view):
            view.video_names(self.video)
        return view.captions(caption)

    def pictures(
        self, view: "View", model: Model, prepare: PreparesPicture, *suffix: Hashable
    ) -> list[Request]:
        """Return a request for each picture of the images, or the videos.

        Its key: the field and ``decode`` if it is not "fast", or the field, sampling and number of
        a frame; then ``suffix``.
        """
        images = self.image_fields(view)
        if images:
            scale = "" if self.decode == "fast" else self.decode
            makes = [(name, partial(view.prepared, name, prepare)) for name in images]
            return [Request(model, (name, scale, *suffix), make) for name, make in makes]
        found = []
        for name in view.video_names(self.video):
            frames = view.frames(name, self.sampled, prepare)
            for number in range(len(frames)):
                key = (name, *self.sampled, number, *suffix)
                found.append(Request(model, key, partial(frames.__getitem__, number)))
        return found

    def counts(self, view: "View") -> list[int]:
        """Return the number of pictures of each image or video: 1 for an image, the frames of a video."""
        if images := self.image_fields(view):
            return [1] * len(images)
        return [view.frame_count(name, self.sampled) for name in view.video_names(self.video)]

    def grouped(self, view: "View", outputs: Sequence[Output]) -> list[list[Output]]:
        """Return the outputs for each image or video: one for an image, one for each frame of a video."""
        left = iter(outputs)
        return [list(islice(left, count)) for count in self.counts(view)]

    def over_frames(
        self,
        view: "View",
        outputs: Sequence[Output],
        number: Callable[[Output], float],
        reduce: Reduce,
        digits: int = 6,
    ) -> Value:
        """Return the value of each image or video, given a function from a picture's output to its number."""
        groups = self.grouped(view, outputs)
        return bare(
            [round(reduced([number(each) for each in group], reduce), digits) for group in groups]
        )


def area(picture: "Pixels") -> int:
    """Return the pixels of an array (3, height, width), its cost."""
    return int(picture.shape[1] * picture.shape[2])


def joined(batch: "Sequence[object]") -> "NDArray[Any] | None":
    """Return pictures of one shape as one array (n, ...); a view if they lie one after the other in memory.

    That is how the process of a model receives them. The view is valid while ``batch`` is held.
    None for other items.
    """
    import numpy as np

    arrays = [each for each in batch if isinstance(each, np.ndarray) and each.ndim > 2]
    if (
        not arrays
        or len(arrays) < len(batch)
        or len({(each.shape, each.dtype) for each in arrays}) > 1
    ):
        return None
    first, size = arrays[0], arrays[0].nbytes
    starts = [each.__array_interface__["data"][0] for each in arrays if each.flags.c_contiguous]
    if starts and starts == [starts[0] + at * size for at in range(len(arrays))]:
        return np.lib.stride_tricks.as_strided(
            first, (len(arrays), *first.shape), (size, *first.strides)
        )
    return np.stack(arrays)


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
        raise ScoreError(
            "not-finite", f"the model's answer is {value}; half precision may be too small for it"
        )
    return float(value)


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Resize the whole picture, then crop its centre, or pad it with ``fill``, to ``size``.

    ``fit`` "short": the short side becomes that of ``size``, a square; "both": both sides do,
    without regard to the aspect ratio; "cover": the smallest that covers ``size``; "within": the
    largest that fits into it. ``rounds_down``: half of an odd margin is rounded down for the crop,
    as by the processors of transformers; torchvision rounds it to even.
    """

    size: Size
    fit: Literal["short", "both", "cover", "within"]
    kernel: "Kernel" = "bicubic"
    fill: int = 0
    rounds_down: bool = False

    def resized(self, width: int, height: int) -> Size:
        """Return the (height, width) that a picture is resized to; a side of a very long one may become 0.

        Source: torchvision's Resize; ResizeKeepRatio of OpenCLIP and timm.

        >>> Geometry(size=(224, 224), fit="short").resized(640, 481)
        (224, 298)
        >>> Geometry(size=(224, 224), fit="within").resized(640, 481)
        (168, 224)
        """
        if self.fit == "both":
            return self.size
        if self.fit == "short":
            from ...imaging.geometry import output_size

            return output_size(width, height, self.size[0])
        sides = height / self.size[0], width / self.size[1]
        ratio = min(sides) if self.fit == "cover" else max(sides)
        return round(height / ratio), round(width / ratio)


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """Makes an array (3, height, width) of uint8 from an image: mirrored by ``flip``, then resized and cropped.

    With ``decode`` "fast" it is decoded at a reduced scale, at least twice as large as needed: see
    ``Decode``. Transparency is dropped and EXIF's orientation ignored, as in training; more than 8
    bits are scaled to 8.
    """

    geometry: Geometry
    flip: Flip = ""
    decode: Scale = "fast"

    def __call__(self, data: bytes, budget: int) -> "Pixels":
        """Return the array. Raises ScoreError, "over-budget" if decoding would take more than ``budget`` bytes."""
        size = (0, 0)

        def aim(width: int, height: int) -> Size:
            nonlocal size
            size = self._resized(width, height)
            return size

        return self._prepared(decoded(data, budget, self.decode, aim), size)

    def of(self, pixels: "Pixels") -> "Pixels":
        """Return the array for a decoded picture (height, width, 3). Raises ScoreError."""
        return self._prepared(pixels, self._resized(pixels.shape[1], pixels.shape[0]))

    def _resized(self, width: int, height: int) -> Size:
        size = self.geometry.resized(width, height)
        if not all(size):
            raise ScoreError(
                "too-long", f"an image of {width} x {height} would have a side of no pixel"
            )
        return size

    def _prepared(self, whole: "Pixels", size: Size) -> "Pixels":
        import numpy as np
        from PIL import Image

        from ...imaging.boxes import box_of
        from ...imaging.resample import resize_with_pillow

        geometry, whole = self.geometry, mirrored(whole, self.flip)
        crop = min(size[0], geometry.size[0]), min(size[1], geometry.size[1])
        # Pillow's kernel, even if torch is installed: decoders need not load torch.
        image = Image.fromarray(np.ascontiguousarray(whole).view(np.ndarray))
        if geometry.rounds_down:
            resized = self._cropped_like_hf(image, box_of(whole), size, crop)
        else:
            resized = resize_with_pillow(image, box_of(whole), size, crop, geometry.kernel)
        pixels = np.asarray(resized).transpose(2, 0, 1)
        if crop == geometry.size:
            return np.ascontiguousarray(pixels)
        top, left = (geometry.size[0] - crop[0]) // 2, (geometry.size[1] - crop[1]) // 2
        padded: Pixels = np.full((3, *geometry.size), geometry.fill, np.uint8)
        padded[:, top : top + crop[0], left : left + crop[1]] = pixels
        return padded

    def _cropped_like_hf(self, image: "Image", box: "Box", size: Size, crop: Size) -> "Image":
        """Resize and crop as the processors of transformers do."""
        from ...imaging.resample import resize_with_pillow

        kernel = self.geometry.kernel
        top, left = (size[0] - crop[0]) // 2, (size[1] - crop[1]) // 2
        if size[0] * size[1] > _MOST_CROPS * crop[0] * crop[1]:
            return resize_with_pillow(image, box, size, crop, kernel, start=(top, left))
        # To resize only the crop would save time, and change pixels by a level.
        whole = resize_with_pillow(image, box, size, None, kernel)
        return whole.crop((left, top, left + crop[1], top + crop[0]))


# EXIF's orientations.
_MIRRORS: dict[Flip, int] = {"horizontal": 2, "both": 3, "vertical": 4}


def mirrored(pixels: "Pixels", flip: Flip) -> "Pixels":
    """Return an array (height, width, 3) with left and right exchanged, or top and bottom, or both."""
    if not flip:
        return pixels
    from ...imaging.boxes import box_of, with_box

    return with_box(*upright(pixels, box_of(pixels), _MIRRORS[flip]))
