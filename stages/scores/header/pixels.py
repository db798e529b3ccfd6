"""How many pixels an image has."""

from dataclasses import dataclass
from typing import ClassVar

from wdsflow.images.header import ImageHeader

from ..base import HeaderScore
from .sized import sized


@dataclass(frozen=True, kw_only=True)
class Pixels(HeaderScore):
    """Width times height, in pixels.

    From 1 on. Source: the header.
    """

    name: ClassVar[str] = "pixels"
    unit: ClassVar[str] = "pixels"
    low: ClassVar[float | None] = 1

    def of(self, header: ImageHeader) -> int:
        """Return the number of pixels."""
        sized(header)
        return header.width * header.height
