"""Stages that decode images at the size that is needed, and resize them for a model."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from wdsflow.images.header import ImageHeader
from wdsflow.images.image_header import UNREADABLE, first_header
from wdsflow.images.jpeg import coefficient_bytes, keeps_busy
from wdsflow.images.pillow import BOMB_PIXELS
from wdsflow.shards.shard_names import IMAGES

from .base import Dropped, OnError, Sample, SampleStage, StageError
from .fields import entries, images
from .imaging.decoders import (
    Alpha,
    HighDepth,
    Mode,
    Target,
    decode_jpeg,
    decode_with_pillow,
    peak_bytes,
    scale_of,
    upright,
)
from .imaging.shrink import ImageFormat, Orientation, Shrinker, ShrinkMode, SizeRule, Small

if TYPE_CHECKING:
    from PIL.Image import Image

    from .imaging.resample import Box, Pixels

Aim = Callable[[int, int], Target]
Admit = Callable[[int], None]

_CUT_IS_BAD = frozenset(("webp", "bmp"))  # Pillow refuses these by the length in their header


@dataclass(frozen=True, kw_only=True)
class Decode(SampleStage, name="decode", read_by="fields", written_by="fields"):
    """Decode images to RGB, as a PIL image or an array (height, width, 3) of uint8.

    Each entry of ``fields`` may name alternatives; the first that a sample has is decoded. The format is recognized by
    the first bytes, never by the field's name. Images that are too large or too small are dropped by their header,
    before a pixel is decoded ("too-many-pixels", "too-small", "over-budget"). Errors: "no-image" (no such field),
    "not-bytes", "not-an-image", "truncated", "undecodable"; unlike in other stages, such samples are dropped and
    counted unless ``on_error="raise"``.

    Modes

    * "fast": as "exact", but images that are more than ``k`` times as large as ``target`` on both sides are reduced:
      JPEGs are decoded at 1/2, 1/4 or 1/8 scale, others are averaged down. With k = 2 the difference after resizing
      is below that between two resampling filters; larger is closer, and slower. ``Resize`` accounts for the scale.
    * "exact": full size, by libjpeg-turbo if it can decode the image; JPEGs are "damaged" if they are for Pillow.
    * "reference": exactly the pixels of ``wds.decode("pilrgb")``: alpha is dropped and high depth clipped.

    ``target`` is the size that later stages need: the shortest side in pixels, or (height, width); None keeps the full
    size. ``alpha`` puts transparent pixels on a colour; "drop" shows their hidden colours, as OpenCLIP does; "keep"
    gives RGBA where pixels may be transparent.
    ``high_depth`` "scale" maps images of more than 8 bits to 0..255; "clip" makes most values white, as OpenCLIP does.
    ``budget`` bounds the memory for decoding one image in bytes, in addition to the encoded bytes: see ``peak_bytes``.
    Of animations, only the first frame is decoded.

    >>> stage = Decode(target=224, max_pixels=25_000_000)
    >>> list(stage([{"__key__": "a", "jpg": b"<html>"}])), stage.counts.failed
    ([], Counter({'not-an-image': 1}))
    """

    fields: str | tuple[str, ...] = IMAGES
    mode: Mode = "fast"
    target: Target = None
    k: float = 2.0
    max_pixels: int | None = BOMB_PIXELS
    min_side: int = 0
    orientation: Literal["ignore", "apply"] = "ignore"
    alpha: Alpha = "drop"
    high_depth: HighDepth = "scale"
    budget: int | None = 1 << 30
    output: Literal["pil", "numpy"] = "pil"
    on_error: OnError = field(default="drop")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "fields", entries(self.fields, "Decode(fields='jpg;png')"))
        if self.alpha not in {"drop", "keep"}:
            colour: tuple[object, ...] = tuple(self.alpha)
            if len(colour) != 3 or not all(isinstance(each, int) and 0 <= each <= 255 for each in colour):
                raise ValueError(f"alpha is {self.alpha!r}; give 'drop', 'keep' or a colour such as (255, 255, 255)")
            object.__setattr__(self, "alpha", colour)
        if self.target is not None and not isinstance(self.target, int):
            object.__setattr__(self, "target", tuple(self.target))
        if self.k < 1:
            raise ValueError(f"k is {self.k}; below 1 images would come smaller than the target")
        sides = (self.target,) if isinstance(self.target, int) else self.target or ()
        if any(side < 1 for side in sides):
            raise ValueError(f"target is {self.target!r}; sides are at least 1 pixel")
        if self.mode == "reference" and (self.alpha != "drop" or self.orientation != "ignore"):
            raise ValueError("mode 'reference' drops alpha and ignores orientation, as OpenCLIP does; use mode 'exact'")

    def apply(self, sample: Sample) -> Sample:
        for name in images(sample, self.fields):
            try:
                sample[name] = self.decode(sample[name])
            except StageError as error:
                raise StageError(error.slug, f"field {name!r}: {error}") from error
        return sample

    def decode(self, data: object, *, aim: Aim | None = None, admit: Admit | None = None) -> Any:
        """Decode one image: to an array or a PIL image, by ``output``. Raises ``Dropped`` and ``StageError``.

        Two hooks are called after the header is read, before a pixel is decoded, and again if the header was wrong.
        ``aim(width, height)`` returns the target of this image, instead of ``target``, in pixels of the whole image:
        (224, 448) for 224 pixels of its left half. ``admit(peak_bytes)`` gets the bound of the memory for decoding;
        it may wait until there is enough, or raise.
        """
        if not isinstance(data, bytes):
            if not isinstance(data, (bytearray, memoryview)):
                raise StageError(
                    "not-bytes", f"expected encoded bytes, got {type(data).__name__}: is it decoded already?"
                )
            data = bytes(data)
        encoded: bytes = data
        header, _head = first_header(lambda start, size: encoded[start : start + size], len(encoded))
        if header is None:
            raise StageError("not-an-image", f"{len(data):,} bytes that begin with {data[:16]!r}")
        if header.format in UNREADABLE:
            raise StageError("undecodable", f"{header.format} cannot be decoded here")
        if header.length > len(data) and (header.needs or header.format in _CUT_IS_BAD):
            raise StageError("truncated", f"{header.format}: the file ends within its header")
        target = self._check(header, data, aim, admit) if header.width else self.target
        if header.format == "jpeg" and self.mode != "reference":
            scale = scale_of(header.width, header.height, target, self.k) if self.mode == "fast" else 1
            decoded = decode_jpeg(data, header, scale)
            if decoded is not None:
                return self._give(*decoded, header.orientation)

        def gate(image: "Image") -> Target:
            if image.size == (header.width, header.height):
                return target
            known = header._replace(width=image.width, height=image.height, mode=image.mode)
            return self._check(known, encoded, aim, admit)

        how = self.mode, self.k, self.alpha, self.high_depth
        image, box, orientation = decode_with_pillow(data, *how, gate, upright=self.orientation == "apply")
        return self._give(image, box, orientation)

    def _check(self, header: ImageHeader, data: bytes, aim: Aim | None, admit: Admit | None) -> Target:
        """Return the target. Raises ``Dropped`` or ``StageError`` if the header alone excludes the image."""
        width, height = header.width, header.height
        if self.max_pixels is not None and width * height > self.max_pixels:
            raise Dropped("too-many-pixels")
        if min(width, height) < self.min_side:
            raise Dropped("too-small")
        coefficients = None
        if header.format == "jpeg":
            coefficients = coefficient_bytes(data)
            if (coefficients is None or coefficients) and keeps_busy(data, width * height):
                raise StageError("undecodable", "it has so many scans that decoding would take minutes")
        target = self.target if aim is None else aim(width, height)
        if self.budget is not None or admit is not None:
            peak = peak_bytes(header, self.mode, target, k=self.k, coefficients=coefficients)
            if self.budget is not None and peak > self.budget:
                raise Dropped("over-budget")
            if admit is not None:
                admit(peak)
        return target

    def _give(self, decoded: "Pixels | Image", box: "Box", orientation: int) -> "Pixels | Image":
        import numpy as np

        from .imaging.resample import note_box, with_box

        turns = self.orientation == "apply" and 2 <= orientation <= 8
        if not isinstance(decoded, np.ndarray):
            if self.output == "pil" and not turns:
                note_box(decoded, box)
                return decoded
            decoded = np.array(decoded)
        if turns:
            decoded, box = upright(decoded, box, orientation)
        if self.output == "numpy":
            return with_box(decoded, box)
        from PIL import Image

        image = Image.fromarray(decoded)
        note_box(image, box)
        return image


_BUDGET = 1 << 30  # bytes for decoding an image that is encoded again
_MOST_PIXELS = 1 << 26  # of a result: a picture of 10,000 x 1 would become one of 2 million x 224


@dataclass(frozen=True)
class Resize(SampleStage, name="resize", read_by="fields", written_by="fields"):
    """Resize RGB images, bicubic with antialiasing, to the sizes of torchvision's ``Resize`` and ``CenterCrop``.

    ``size``: of the shortest side in pixels, or (height, width) regardless of the aspect ratio. ``crop`` crops the
    centre, ``size`` x ``size``. Images are PIL images or arrays (height, width, 3) of uint8; the result has the same
    type. Uses the kernel of torch if it is installed, at most 2 levels from Pillow's and several times as fast;
    otherwise Pillow's. The geometry is the same for images that ``Decode`` reduced.

    A result of more than 67 million pixels is dropped as "too-long"; a value that is not an image fails as "not-pixels".

    If ``size`` is a text such as "512" (the long side), "short:224" or "pixels:1MP" (see ``SizeRule``), images are bytes,
    as in a tar, and stay bytes: larger ones are decoded, made smaller and encoded again, smaller ones are not touched.
    This is what ``wdsflow filter --resize`` does; ``image_format``, ``quality``, ``orientation`` and ``mode`` are for this,
    see ``Shrinker``. If the format changes, so does the name of the field.

    >>> Resize("512", image_format="webp").shrinker.rule
    SizeRule(way='long', most=512)
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
        object.__setattr__(self, "fields", entries(self.fields, "Resize(224, fields='image')"))
        if isinstance(self.size, str):
            if self.crop:
                raise ValueError("crop is for a size in pixels: use 'center-crop:224'")
            _ = self.shrinker
            return
        if (self.image_format, self.quality, self.orientation, self.mode) != ("same", 95, "apply", "fast"):
            raise ValueError(
                "image_format, quality, orientation and mode are for encoded images: give a size such as '512'"
            )
        sides = (self.size,) if isinstance(self.size, int) else tuple(self.size)
        if any(side < 1 for side in sides) or len(sides) > 2:
            raise ValueError(f"size is {self.size!r}; give one side, or (height, width), of at least 1 pixel")
        if not isinstance(self.size, int):
            object.__setattr__(self, "size", sides)

    def apply(self, sample: Sample) -> Sample:
        for name in images(sample, self.fields):
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

    def _shrunk(self, data: object) -> Small | None:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            kind = type(data).__name__
            raise StageError("not-bytes", f"a {kind}: {self.size!r} is for encoded images, before Decode")
        encoded = bytes(data)
        header, _ = first_header(lambda start, size: encoded[start : start + size], len(encoded))
        if header is None:
            raise StageError("not-an-image", f"{len(encoded):,} bytes that begin with {encoded[:16]!r}")
        return self.shrinker.of(encoded, header, _BUDGET)

    def resize(self, image: object) -> "Pixels | Image":
        """Resize one decoded image."""
        import numpy as np
        from PIL import Image

        from .imaging.resample import box_of, has_torch, output_size, resize, resize_with_pillow

        if isinstance(image, np.ndarray):
            if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
                raise StageError("not-pixels", f"an array of {image.dtype} {image.shape}, not uint8 (height, width, 3)")
        elif not isinstance(image, Image.Image):
            raise StageError("not-pixels", f"a {type(image).__name__}, no image: is it decoded?")
        elif image.mode != "RGB":
            raise StageError("not-pixels", f"a PIL image of mode {image.mode}, not RGB")
        box = box_of(image)
        if isinstance(self.size, str):
            raise StageError("not-bytes", f"it is decoded: {self.size!r} is for encoded images, before Decode")
        size = output_size(box[2] - box[0], box[3] - box[1], self.size)
        crop = (self.size, self.size) if self.crop and isinstance(self.size, int) else None
        if crop is None and size[0] * size[1] > _MOST_PIXELS:
            raise Dropped("too-long")
        if isinstance(image, np.ndarray):
            return np.ascontiguousarray(resize(image, box, size, crop))
        if has_torch():
            return Image.fromarray(np.ascontiguousarray(resize(np.array(image), box, size, crop)))
        return resize_with_pillow(image, box, size, crop)
