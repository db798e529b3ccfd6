"""A stage that resizes images: decoded ones for a model, or encoded ones to smaller files."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from wdsflow.images.image_header import first_header
from wdsflow.shards.shard_names import IMAGES

from .base import Dropped, Sample, SampleStage, StageError
from .fields import image_fields, normalized_entries
from .imaging.shrink import ImageFormat, Orientation, Shrinker, ShrinkMode, ShrunkImage
from .imaging.size_rule import SizeRule

if TYPE_CHECKING:
    from PIL.Image import Image

    from .imaging.boxes import Pixels

# Bytes for decoding an image that is encoded again.
_BUDGET = 1 << 30
# Of a result: a picture of 10,000 x 1 would become one of 2 million x 224.
_MOST_PIXELS = 1 << 26


@dataclass(frozen=True)
class Resize(SampleStage, name="resize", read_by="fields", written_by="fields"):
    """Resize RGB images to the sizes of torchvision's ``Resize`` and ``CenterCrop``.

    The filter is bicubic, with antialiasing.

    ``size``: of the shortest side in pixels, or (height, width) regardless of the aspect ratio.
    ``crop`` crops the centre, ``size`` x ``size``. Images are PIL images or arrays (height, width,
    3) of uint8; the result has the same type. Uses the kernel of torch if it is installed, at most
    2 levels from Pillow's and several times as fast; otherwise Pillow's. The geometry is the same
    for images that ``Decode`` reduced.

    A result of more than 67 million pixels is dropped as "too-long"; a value that is not an image
    fails as "not-pixels".

    If ``size`` is a text such as "512" (the long side), "short:224" or "pixels:1MP" (see
    ``SizeRule``), images are bytes, as in a tar, and stay bytes: larger ones are decoded, made
    smaller and encoded again, smaller ones are not touched. This is what
    ``wdsflow filter --resize`` does; ``image_format``, ``quality``, ``orientation`` and ``mode``
    are for this, see ``Shrinker``. If the format changes, so does the name of the field.

    >>> Resize("512", image_format="webp").shrinker.rule
    SizeRule(kind='long', most=512)
    """

    size: int | tuple[int, int] | str
    crop: bool = False
    fields: str | tuple[str, ...] = IMAGES
    image_format: ImageFormat = field(default="same", kw_only=True)
    quality: int = field(default=95, kw_only=True)
    orientation: Orientation = field(default="apply", kw_only=True)
    mode: ShrinkMode = field(default="fast", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(
            self, "fields", normalized_entries(self.fields, "Resize(224, fields='image')")
        )
        if isinstance(self.size, str):
            if self.crop:
                raise ValueError("crop is for a size in pixels: use 'center-crop:224'")
            _ = self.shrinker
            return
        if (self.image_format, self.quality, self.orientation, self.mode) != (
            "same",
            95,
            "apply",
            "fast",
        ):
            raise ValueError(
                "image_format, quality, orientation and mode are for encoded images: give a size such as '512'"
            )
        sides = (self.size,) if isinstance(self.size, int) else tuple(self.size)
        if any(side < 1 for side in sides) or len(sides) > 2:
            raise ValueError(
                f"size is {self.size!r}; give one side, or (height, width), of at least 1 pixel"
            )
        if not isinstance(self.size, int):
            object.__setattr__(self, "size", sides)

    def apply(self, sample: Sample) -> Sample:
        for name in image_fields(sample, self.fields):
            if not isinstance(self.size, str):
                sample[name] = self.resize(sample[name])
            elif (small := self._shrunk(sample[name])) is not None:
                del sample[name]
                sample[small.field_for(name, sample)] = small.data
        return sample

    @cached_property
    def shrinker(self) -> Shrinker:
        """What makes encoded images smaller. Raises ValueError if ``size`` is no rule."""
        rule = SizeRule.parse(str(self.size))
        how = self.image_format, self.quality, self.orientation, self.mode
        return Shrinker(rule, *how)

    def _shrunk(self, data: object) -> ShrunkImage | None:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            kind = type(data).__name__
            raise StageError(
                "not-bytes", f"a {kind}: {self.size!r} is for encoded images, before Decode"
            )
        encoded = bytes(data)
        header, _ = first_header(lambda start, size: encoded[start : start + size], len(encoded))
        if header is None:
            raise StageError(
                "not-an-image", f"{len(encoded):,} bytes that begin with {encoded[:16]!r}"
            )
        return self.shrinker.shrink(encoded, header, _BUDGET)

    def resize(self, image: object) -> "Pixels | Image":
        """Resize one decoded image."""
        import numpy as np
        from PIL import Image

        from .imaging.boxes import box_of
        from .imaging.geometry import output_size
        from .imaging.pillow_pixels import to_array
        from .imaging.resample import resize, resize_with_pillow
        from .imaging.torch_kernel import has_torch

        if isinstance(image, np.ndarray):
            if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
                raise StageError(
                    "not-pixels",
                    f"an array of {image.dtype} {image.shape}, not uint8 (height, width, 3)",
                )
        elif not isinstance(image, Image.Image):
            raise StageError("not-pixels", f"a {type(image).__name__}, no image: is it decoded?")
        elif image.mode != "RGB":
            raise StageError("not-pixels", f"a PIL image of mode {image.mode}, not RGB")
        box = box_of(image)
        if isinstance(self.size, str):
            raise StageError(
                "not-bytes", f"it is decoded: {self.size!r} is for encoded images, before Decode"
            )
        size = output_size(box[2] - box[0], box[3] - box[1], self.size)
        crop = (self.size, self.size) if self.crop and isinstance(self.size, int) else None
        if crop is None and size[0] * size[1] > _MOST_PIXELS:
            raise Dropped("too-long")
        if isinstance(image, np.ndarray):
            return np.ascontiguousarray(resize(image, box, size, crop))
        if has_torch():
            return Image.fromarray(np.ascontiguousarray(resize(to_array(image), box, size, crop)))
        return resize_with_pillow(image, box, size, crop)
