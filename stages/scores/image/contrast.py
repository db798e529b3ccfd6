"""How much light and dark differ in an image."""

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from ..base import PixelScore, Tolerance
from .picture import Picture


@dataclass(frozen=True, kw_only=True)
class Contrast(PixelScore):
    """Standard deviation of the luma, as a share of white (RMS contrast): 0 is one tone, 0.5 is half black, half white.

    0 to 0.5, on the luma of at most 512 pixels per side. Source: Peli, Contrast in complex images, JOSA A 1990.
    """

    name: ClassVar[str] = "contrast"
    low: ClassVar[float | None] = 0
    high: ClassVar[float | None] = 0.5
    scale_tolerance: ClassVar[Tolerance | None] = Tolerance(0.005)

    def of(self, picture: Picture) -> float:
        """Return the deviation."""
        counts = picture.histogram
        size = sum(counts)
        total = sum(level * count for level, count in enumerate(counts))
        squares = sum(level * level * count for level, count in enumerate(counts))
        return sqrt(size * squares - total * total) / (255 * size)
