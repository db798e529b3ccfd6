"""Scores from the first bytes of an image."""

from wdsflow.images.header import ImageHeader

from .base import ImageScore, ScoreError, Value, single_or_list
from .sample_fields import ImageField
from .sample_view import View
from .simple_score import simple_score


def header_with_size(header: ImageHeader) -> ImageHeader:
    """Return the header. Raises ScoreError "unknown-size" if it has no width and height."""
    if header.width and header.height:
        return header
    raise ScoreError("unknown-size", f"the header of this {header.format} has no width and height")


@simple_score()
def animated(image: ImageField) -> bool:
    """Whether the file is an animation: GIF, WebP or PNG of several frames.

    Training sees only the first frame.

    A GIF counts if it loops, or if a second frame begins within its first MiB. Source: the header.
    """
    return image.is_animated()


@simple_score(low=0)
def aspect_ratio(header: ImageHeader) -> float:
    """Width divided by height, as stored: 1.5 is a landscape photograph, below 1 is upright.

    Above 0, no unit. Source: the header; Data-Juicer's aspect_ratios.
    """
    return header_with_size(header).width / header.height


class Bytes(ImageScore, name="bytes", tier="header", unit="bytes", low=0):
    """Size of the encoded image in bytes.

    In a predicate, sizes are written as 120 * KiB or 1.5 * GB.

    From 0 on. Source: the tar's header; Data-Juicer's image_sizes (whose kb is a KiB here).
    """

    def score(self, view: View) -> Value:
        return single_or_list([*view.sizes(self.image)])


@simple_score("format")
def format_(header: ImageHeader) -> str:
    """Format of the image: "jpeg", "png", "webp", "gif", "bmp", "tiff" or another.

    It is determined by the first bytes, never by the field's name.

    Formats that are recognized only by their mark are included ("heic", "svg", "pdf"). Source: the
    header.
    """
    return header.format


@simple_score(unit="pixels", low=1)
def height(header: ImageHeader) -> int:
    """Height of the image in pixels, as stored: an EXIF orientation does not swap the sides.

    From 1 on. Source: the header; Data-Juicer's image_height.
    """
    return header_with_size(header).height


@simple_score(unit="pixels", low=1)
def min_side(header: ImageHeader) -> int:
    """The shorter of width and height, in pixels.

    From 1 on. Source: the header.
    """
    return min(header_with_size(header).width, header.height)


@simple_score()
def mode(header: ImageHeader) -> str:
    """Colour mode of the image, by Pillow's name: "RGB", "L" (grey), "RGBA", "CMYK".

    Other modes are "P" (palette), "1", "I;16" and more.

    Source: the header; equal to the mode of ``PIL.Image.open`` for JPEG, PNG, GIF, WebP and BMP.
    """
    if not header.mode:
        raise ScoreError(
            "unknown-mode", f"the header of this {header.format} has no mode, or cannot be decoded"
        )
    return header.mode


@simple_score(low=0, revision=2)
def orientation(image: ImageField) -> int:
    """EXIF orientation of the image: 1 is upright, 3 upside down, 6 and 8 are turned by a quarter.

    1 to 8, and 1 if the file has none; any other number is returned unchanged. Unknown
    ("unknown-orientation") for AVIF, HEIC and JPEG XL. Source: EXIF 2.32, tag 274, or XMP if EXIF
    has none.
    """
    return image.orientation()


@simple_score(unit="pixels", low=1)
def pixels(header: ImageHeader) -> int:
    """Width times height, in pixels.

    From 1 on. Source: the header.
    """
    return header_with_size(header).width * header.height


@simple_score(unit="pixels", low=1)
def width(header: ImageHeader) -> int:
    """Width of the image in pixels, as stored: an EXIF orientation does not swap the sides.

    From 1 on. Source: the header; Data-Juicer's image_width.
    """
    return header_with_size(header).width
