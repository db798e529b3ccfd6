"""What format an image is in."""

from dataclasses import dataclass
from typing import ClassVar

from wdsflow.images.header import ImageHeader

from ..base import HeaderScore, Kind


@dataclass(frozen=True, kw_only=True)
class Format(HeaderScore):
    """Format of the image by its first bytes, never by the field's name: "jpeg", "png", "webp", "gif", "bmp", "tiff", ...

    Formats that are recognized only by their mark are included ("heic", "svg", "pdf"). Source: the header.
    """

    name: ClassVar[str] = "format"
    kind: ClassVar[Kind] = "text"

    def of(self, header: ImageHeader) -> str:
        """Return the format's name."""
        return header.format
