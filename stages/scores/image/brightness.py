"""How bright an image is."""

from dataclasses import dataclass
from typing import ClassVar

from ..base import PixelScore, Tolerance
from .picture import Picture


@dataclass(frozen=True, kw_only=True)
class Brightness(PixelScore):
    """Mean of the luma, as a share of white: 0 is black, 1 is white.

    0 to 1, on the luma of at most 512 pixels per side. Source: ITU-R BT.601 (luma).
    """

    name: ClassVar[str] = "brightness"
    low: ClassVar[float | None] = 0
    high: ClassVar[float | None] = 1
    scale_tolerance: ClassVar[Tolerance | None] = Tolerance(0.002)

    def of(self, picture: Picture) -> float:
        """Return the mean."""
        counts = picture.histogram
        return sum(level * count for level, count in enumerate(counts)) / (255 * sum(counts))
