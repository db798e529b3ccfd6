"""The shorter side of an image."""

from dataclasses import dataclass
from typing import ClassVar

from wdsflow.images.header import ImageHeader

from ..base import HeaderScore
from .sized import sized


@dataclass(frozen=True, kw_only=True)
class MinSide(HeaderScore):
    """The shorter of width and height, in pixels.

    From 1 on. Source: the header.
    """

    name: ClassVar[str] = "min_side"
    unit: ClassVar[str] = "pixels"
    low: ClassVar[float | None] = 1

    def of(self, header: ImageHeader) -> int:
        """Return the shorter side."""
        sized(header)
        return min(header.width, header.height)
