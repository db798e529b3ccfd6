"""How high an image is."""

from dataclasses import dataclass
from typing import ClassVar

from wdsflow.images.header import ImageHeader

from ..base import HeaderScore
from .sized import sized


@dataclass(frozen=True, kw_only=True)
class Height(HeaderScore):
    """Height of the image in pixels, as stored: an EXIF orientation does not swap the sides.

    From 1 on. Source: the header; Data-Juicer's image_height.
    """

    name: ClassVar[str] = "height"
    unit: ClassVar[str] = "pixels"
    low: ClassVar[float | None] = 1

    def of(self, header: ImageHeader) -> int:
        """Return the height."""
        return sized(header).height
