"""How wide an image is."""

from dataclasses import dataclass
from typing import ClassVar

from wdsflow.images.header import ImageHeader

from ..base import HeaderScore
from .sized import sized


@dataclass(frozen=True, kw_only=True)
class Width(HeaderScore):
    """Width of the image in pixels, as stored: an EXIF orientation does not swap the sides.

    From 1 on. Source: the header; Data-Juicer's image_width.
    """

    name: ClassVar[str] = "width"
    unit: ClassVar[str] = "pixels"
    low: ClassVar[float | None] = 1

    def of(self, header: ImageHeader) -> int:
        """Return the width."""
        return sized(header).width
