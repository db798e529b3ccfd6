"""A stage that decodes images at the size that is needed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from wdsflow.images.header import ImageHeader
from wdsflow.images.image_header import UNREADABLE, first_header
from wdsflow.images.jpeg import coefficient_bytes, decodes_too_long
from wdsflow.images.pillow import BOMB_PIXELS
from wdsflow.shards.shard_names import IMAGES

from .base import Dropped, OnError, Sample, SampleStage, StageError
from .fields import image_fields, normalized_entries
from .imaging.decoders import decode_jpeg, decode_with_pillow
from .imaging.decoding_memory import peak_bytes
from .imaging.decoding_scale import Mode, Target, scale_of
from .imaging.rgb import Alpha, HighDepth
from .imaging.upright import upright

if TYPE_CHECKING:
    from PIL.Image import Image

    from .imaging.boxes import Box, Pixels

Aim = Callable[[int, int], Target]
Admit = Callable[[int], None]

# Pillow refuses these if the length in their header is more than that of the file.
_CUT_IS_BAD = frozenset(("webp", "bmp"))


@dataclass(frozen=True, kw_only=True)
class Decode(SampleStage, name="decode", read_by="fields", written_by="fields"):
    """Decode images to RGB, as a PIL image or an array (height, width, 3) of uint8.

    Each entry of ``fields`` may name alternatives; the first that a sample has is decoded. The
    format is recognized by the first bytes, never by the field's name. Images that are too large or
    too small are dropped by their header, before a pixel is decoded ("too-many-pixels",
    "too-small", "over-budget"). Errors: "no-image" (no such field), "not-bytes", "not-an-image",
    "truncated", "undecodable"; unlike in other stages, such samples are dropped and counted unless
    ``on_error="raise"``.

    Modes

    * "fast": as "exact", but images that are more than ``k`` times as large as ``target`` on both
      sides are reduced: JPEGs are decoded at 1/2, 1/4 or 1/8 scale, others are averaged down. With
      k = 2 the difference after resizing is below that between two resampling filters; larger is
      closer, and slower. ``Resize`` accounts for the scale.
    * "exact": full size, by libjpeg-turbo if it can decode the image; JPEGs are "damaged" if they
      are for Pillow.
    * "reference": exactly the pixels of ``wds.decode("pilrgb")``: alpha is dropped and high depth
      clipped.

    ``target`` is the size that later stages need: the shortest side in pixels, or (height, width);
    None keeps the full size. ``alpha`` puts transparent pixels on a colour; "drop" shows their
    hidden colours, as OpenCLIP does; "keep" gives RGBA where pixels may be transparent.
    ``high_depth`` "scale" maps images of more than 8 bits to 0..255; "clip" makes most values
    white, as OpenCLIP does. ``budget`` bounds the memory for decoding one image in bytes, in
    addition to the encoded bytes: see ``peak_bytes``. Of animations, only the first frame is
    decoded.

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
        object.__setattr__(
            self, "fields", normalized_entries(self.fields, "Decode(fields='jpg;png')")
        )
        if self.alpha not in {"drop", "keep"}:
            colour: tuple[object, ...] = tuple(self.alpha)
            if not _is_colour(colour):
                raise ValueError(
                    f"alpha is {self.alpha!r}; give 'drop', 'keep' or a colour such as (255, 255, 255)"
                )
            object.__setattr__(self, "alpha", colour)
        if self.target is not None and not isinstance(self.target, int):
            object.__setattr__(self, "target", tuple(self.target))
        if self.k < 1:
            raise ValueError(f"k is {self.k}; below 1 images would come smaller than the target")
        sides = (self.target,) if isinstance(self.target, int) else self.target or ()
        if any(side < 1 for side in sides):
            raise ValueError(f"target is {self.target!r}; sides are at least 1 pixel")
        if self.mode == "reference" and (self.alpha != "drop" or self.orientation != "ignore"):
            raise ValueError(
                "mode 'reference' drops alpha and ignores orientation, as OpenCLIP does; use mode 'exact'"
            )

    def apply(self, sample: Sample) -> Sample:
        for name in image_fields(sample, self.fields):
            try:
                sample[name] = self.decode(sample[name])
            except StageError as error:
                raise StageError(error.slug, f"field {name!r}: {error}") from error
        return sample

    def decode(self, data: object, *, aim: Aim | None = None, admit: Admit | None = None) -> Any:
        """Decode one image to an array or a PIL image, by ``output``.

        Raises ``Dropped`` and ``StageError``.

        Two hooks are called after the header is read, before a pixel is decoded, and again if the
        header was wrong. ``aim(width, height)`` returns the target of this image, instead of
        ``target``, in pixels of the whole image: (224, 448) for 224 pixels of its left half.
        ``admit(peak_bytes)`` gets the bound of the memory for decoding; it may wait until there is
        enough, or raise.
        """
        if not isinstance(data, bytes):
            if not isinstance(data, (bytearray, memoryview)):
                raise StageError(
                    "not-bytes",
                    f"expected encoded bytes, got {type(data).__name__}: is it decoded already?",
                )
            data = bytes(data)
        encoded: bytes = data
        header, _ = first_header(lambda start, size: encoded[start : start + size], len(encoded))
        if header is None:
            raise StageError("not-an-image", f"{len(data):,} bytes that begin with {data[:16]!r}")
        if header.format in UNREADABLE:
            raise StageError("undecodable", f"{header.format} cannot be decoded here")
        if header.length > len(data) and (header.needs or header.format in _CUT_IS_BAD):
            raise StageError("truncated", f"{header.format}: the file ends within its header")
        target = self._checked_target(header, data, aim, admit) if header.width else self.target
        if header.format == "jpeg" and self.mode != "reference":
            scale = 1
            if self.mode == "fast":
                scale = scale_of(header.width, header.height, target, self.k)
            decoded = decode_jpeg(data, header, scale)
            if decoded is not None:
                return self._in_output_type(*decoded, header.orientation)

        def target_of(image: "Image") -> Target:
            """Return the target of an image that Pillow has opened.

            Its size may differ from that in the header.
            """
            if image.size == (header.width, header.height):
                return target
            actual = header._replace(width=image.width, height=image.height, mode=image.mode)
            return self._checked_target(actual, encoded, aim, admit)

        image, box, orientation = decode_with_pillow(
            data,
            self.mode,
            self.k,
            self.alpha,
            self.high_depth,
            target_of,
            upright=self.orientation == "apply",
        )
        return self._in_output_type(image, box, orientation)

    def _checked_target(
        self, header: ImageHeader, data: bytes, aim: Aim | None, admit: Admit | None
    ) -> Target:
        """Return the target size for decoding.

        Raises ``Dropped`` or ``StageError`` if the header alone excludes the image.
        """
        width, height = header.width, header.height
        if self.max_pixels is not None and width * height > self.max_pixels:
            raise Dropped("too-many-pixels")
        if min(width, height) < self.min_side:
            raise Dropped("too-small")
        coefficients = None
        if header.format == "jpeg":
            coefficients = coefficient_bytes(data)
            if (coefficients is None or coefficients) and decodes_too_long(data, width * height):
                raise StageError(
                    "undecodable", "it has so many scans that decoding would take minutes"
                )
        target = self.target if aim is None else aim(width, height)
        if self.budget is not None or admit is not None:
            peak = peak_bytes(header, self.mode, target, k=self.k, coefficients=coefficients)
            if self.budget is not None and peak > self.budget:
                raise Dropped("over-budget")
            if admit is not None:
                admit(peak)
        return target

    def _in_output_type(
        self, decoded: "Pixels | Image", box: "Box", orientation: int
    ) -> "Pixels | Image":
        """Return decoded pixels in the type of ``output``, upright if requested."""
        import numpy as np

        from .imaging.boxes import set_box, with_box
        from .imaging.pillow_pixels import to_array

        has_to_turn = self.orientation == "apply" and 2 <= orientation <= 8
        if not isinstance(decoded, np.ndarray):
            if self.output == "pil" and not has_to_turn:
                set_box(decoded, box)
                return decoded
            decoded = to_array(decoded)
        if has_to_turn:
            decoded, box = upright(decoded, box, orientation)
        if self.output == "numpy":
            return with_box(decoded, box)
        from PIL import Image

        image = Image.fromarray(decoded)
        set_box(image, box)
        return image


def _is_colour(values: tuple[object, ...]) -> bool:
    """Return whether values are red, green and blue, from 0 to 255."""
    return len(values) == 3 and all(
        isinstance(level, int) and 0 <= level <= 255 for level in values
    )
