"""Encoded images made smaller, and encoded again."""

from collections.abc import Container
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from math import ceil
from typing import TYPE_CHECKING, Literal, NamedTuple

from wdsflow.images.header import ImageHeader
from wdsflow.images.image_header import UNREADABLE
from wdsflow.images.pillow import open_image, quiet_pillow

from ..base import Dropped, StageError, check_choice
from .colour_profile import in_srgb
from .decoding_scale import scale_of
from .rgb import to_rgb
from .scored_size import aim_of_scores
from .size_rule import SizeRule
from .upright import orientation_of

if TYPE_CHECKING:
    from PIL.Image import Image

    from ..decode import Decode

ImageFormat = Literal["same", "jpg", "webp", "png"]
Orientation = Literal["apply", "keep"]
ShrinkMode = Literal["fast", "exact"]

# Decoded at least so many times as large as needed.
_K = 1.5
# Pillow averages pixels while they are more than so many times as many as needed on a side.
_GAP = 3.0
_WHITE = (255, 255, 255)

_ENDINGS = {"jpeg": "jpg", "png": "png", "webp": "webp"}
# Without loss; all other formats become JPEG.
_TO_PNG = frozenset(("gif", "bmp", "tiff", "ico"))
_GREY = frozenset(("1", "L", "I", "F", "I;16", "I;16B"))

# Big-endian TIFF with one directory of one entry: tag 274, one short. EXIF 2.32, 4.6.
_EXIF = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0%c\0\0\0\0\0\0"


class ShrunkImage(NamedTuple):
    """An image that was made smaller.

    ``old_format``: the format of the old file; ``format``: "jpeg", "png" or "webp".
    """

    data: bytes
    width: int
    height: int
    old_format: str
    format: str

    def field_for(self, name: str, others: Container[str] = ()) -> str:
        """Return the field name of the image: with another ending if the format has changed.

        Raises StageError if that is one of the ``others``.

        >>> ShrunkImage(b"", 1, 1, "jpeg", "webp").field_for("0.jpeg"), ShrunkImage(b"", 1, 1, "jpeg", "jpeg").field_for("jpeg")
        ('0.webp', 'jpeg')
        """
        if self.old_format == self.format:
            return name
        before, dot, _ = name.rpartition(".")
        new = f"{before}{dot}{_ENDINGS[self.format]}"
        if new != name and new in others:
            raise StageError(
                "field-taken", f"field {name!r} would become {new!r}, which the sample has already"
            )
        return new


@dataclass(frozen=True)
class Shrinker:
    """Makes encoded images smaller. An image that is small enough is not even decoded.

    ``image_format``: "same" keeps JPEG, PNG and WebP; GIF, BMP and TIFF become PNG, all others
    JPEG. ``quality``: of JPEG (4:2:0) and WebP, 1 to 100. ``orientation``: "apply" turns the pixels
    as EXIF says, "keep" writes that into the new file; no other EXIF is kept. ``mode``: "fast"
    decodes a JPEG at 1/2, 1/4 or 1/8 of its size, as long as that is at least one and a half times
    the requested one and 512 pixels long; "exact" at its full size.

    Resized by Pillow's bicubic filter, antialiased. Transparency stays, and is laid on white in a
    JPEG. A colour profile of RGB is converted to sRGB and left out; others, such as those of CMYK,
    are ignored, as in training. Values of more than 8 bits are scaled to 0..255. Of an animation
    the first frame stays, which is the one that training sees.
    """

    rule: SizeRule
    image_format: ImageFormat = "same"
    quality: int = 95
    orientation: Orientation = "apply"
    mode: ShrinkMode = "fast"

    def __post_init__(self) -> None:
        """Refuse impossible settings."""
        for name, kind in (
            ("image_format", ImageFormat),
            ("orientation", Orientation),
            ("mode", ShrinkMode),
        ):
            check_choice("resize", name, getattr(self, name), kind)
        if not 1 <= self.quality <= 100:
            raise ValueError(f"resize: quality={self.quality!r} must be from 1 to 100")

    def shrink(
        self, data: bytes, header: ImageHeader, budget: int, picture: "Image | None" = None
    ) -> ShrunkImage | None:
        """Return a smaller image, or None if it is small enough.

        ``budget``: bytes for decoding it. ``picture``: it, decoded already, if ``shares`` allows
        that. Raises StageError as ``Decode``, and "unencodable"; Dropped "over-budget".
        """
        if not header.width:
            header = _measured(data, header)
        if self.rule.is_small_enough(header.width, header.height):
            return None
        width, height = self.rule.final(header.width, header.height)

        def admit(peak: int) -> None:
            # The result, and what resizing and encoding take.
            result = 12 * width * height
            if peak + self._bytes_of_copies(header) + result > budget:
                raise Dropped("over-budget")

        admit(0)
        image = picture or self._decoder.decode(data, aim=self._aim, admit=admit)
        if header.mode in _GREY and image.mode == "RGB":
            # Its info, with the box, is kept.
            image = image.convert("L")
        small = self._resized(image, header.width, header.height)
        # Of other formats the header does not say.
        if header.icc or header.format not in _ENDINGS:
            small = in_srgb(small, data)
        new_format = self._format_for(header.format)
        encoded = self._encoded(small, new_format, self._exif(data, header))
        return ShrunkImage(encoded, *small.size, header.format, new_format)

    def can_use_picture(self, header: ImageHeader) -> bool:
        """Return whether the picture that scores decode has the pixels that are needed here.

        For a JPEG, it must be decoded at the same scale.
        """
        if header.format != "jpeg" or self.mode != "fast":
            return False
        if self.orientation == "apply" and header.orientation != 1:
            return False
        size = header.width, header.height
        scale = scale_of(*size, self._aim(*size), 1.0)
        return scale == scale_of(*size, aim_of_scores(*size), 1.0)

    def _aim(self, width: int, height: int) -> tuple[int, int]:
        """Return the target (height, width) of decoding.

        It is never smaller than scores need, so that both can share the decoded image.
        """
        across, down = (ceil(_K * side) for side in self.rule.scaled(width, height))
        least = aim_of_scores(width, height)
        return max(down, least[0]), max(across, least[1])

    @cached_property
    def _decoder(self) -> "Decode":
        from ..decode import Decode

        turn: Literal["apply", "ignore"] = "apply" if self.orientation == "apply" else "ignore"
        return Decode(
            mode=self.mode, k=1.0, alpha="keep", orientation=turn, max_pixels=None, budget=None
        )

    def _bytes_of_copies(self, header: ImageHeader) -> int:
        """Return bytes for copies of the decoded image: one in grey, and two while it is turned."""
        size = header.width, header.height
        turns = self.orientation == "apply" and (header.format != "jpeg" or header.orientation != 1)
        scale = 1
        if self.mode == "fast":
            largest_scale = 8 if header.format == "jpeg" else 1 << 16
            scale = scale_of(*size, self._aim(*size), 1.0, largest_scale)
        # Pillow takes four bytes for a pixel.
        bytes_per_pixel = 8 * turns + 4 * (header.mode in _GREY)
        return bytes_per_pixel * header.width * header.height // scale**2

    def _resized(self, image: "Image", width: int, height: int) -> "Image":
        """Return the resized image of an original of ``width`` x ``height`` pixels.

        ``image`` may be a turned and reduced copy of the original.
        """
        from PIL import Image as Images

        from .boxes import box_of
        from .resample import resize_with_pillow

        box = box_of(image)
        left, top, right, bottom = box
        is_turned = (right - left - bottom + top) * (width - height) < 0
        if is_turned:
            width, height = height, width
        across, down = self.rule.scaled(width, height)
        final_width, final_height = self.rule.final(width, height)
        crop = None
        if self.rule.kind == "center-crop":
            crop = final_height, final_width
        small = resize_with_pillow(image, box, (down, across), crop, gap=_GAP)
        if self.rule.kind != "square":
            return small
        white = {"L": "white", "RGB": "white", "RGBA": "#ffffff00"}[small.mode]
        square = Images.new(small.mode, (final_width, final_height), white)
        square.paste(small, ((final_width - across) // 2, (final_height - down) // 2))
        return square

    def _format_for(self, was: str) -> str:
        if self.image_format != "same":
            return next(name for name, ending in _ENDINGS.items() if ending == self.image_format)
        if was in _ENDINGS:
            return was
        return "png" if was in _TO_PNG else "jpeg"

    def _encoded(self, image: "Image", kind: str, exif: bytes) -> bytes:
        if kind == "jpeg" and image.mode == "RGBA":
            image = to_rgb(image, _WHITE, "scale")
        # Pillow would write some of it into the file.
        image.info = {}
        file = BytesIO()
        try:
            with quiet_pillow():
                image.save(file, kind, quality=self.quality, exif=exif)
        except (OSError, ValueError) as error:
            # Such as a side of more than 16,383 pixels in a WebP.
            raise StageError("unencodable", f"{kind}: {error}") from None
        return file.getvalue()

    def _exif(self, data: bytes, header: ImageHeader) -> bytes:
        """Return EXIF with the orientation only, if it is to be kept and is not the usual one."""
        # Which Pillow turns by itself.
        if self.orientation == "apply" or header.format == "tiff":
            return b""
        turn = header.orientation
        if header.format != "jpeg":
            with quiet_pillow(), open_image(data) as image:
                turn = orientation_of(image)
        return _EXIF % turn if 2 <= turn <= 8 else b""


def _measured(data: bytes, header: ImageHeader) -> ImageHeader:
    """Return the header of an image whose size is not in its header, such as an icon.

    Raises StageError if the size is unknown.
    """
    if header.format in UNREADABLE:
        raise StageError(
            "undecodable", f"{header.format} cannot be decoded here, and its size is unknown"
        )
    try:
        with quiet_pillow(), open_image(data) as image:
            return header._replace(width=image.width, height=image.height, mode=image.mode)
    except Exception as error:  # noqa: BLE001 - Pillow raises many kinds of errors for damaged files
        raise StageError("undecodable", f"{header.format}: {str(error)[:200]}") from None
