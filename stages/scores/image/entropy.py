"""How varied the tones of an image are."""

from dataclasses import dataclass
from math import fsum, log2
from typing import ClassVar

from ..base import PixelScore, Tolerance
from .picture import Picture


@dataclass(frozen=True, kw_only=True)
class Entropy(PixelScore):
    """Shannon entropy of the luma's histogram of 256 levels, in bits: 0 is one tone; photographs have 6 to 8.

    0 to 8, on the luma of at most 512 pixels per side, rounded to 12 decimal places. Source: Pillow's ``Image.entropy``
    of the grey image.
    """

    name: ClassVar[str] = "entropy"
    unit: ClassVar[str] = "bits"
    low: ClassVar[float | None] = 0
    high: ClassVar[float | None] = 8
    scale_tolerance: ClassVar[Tolerance | None] = Tolerance(0.05)

    def of(self, picture: Picture) -> float:
        """Return the entropy."""
        counts = [count for count in picture.histogram if count]
        size = sum(counts)
        # Rounded, because logarithms differ in their last bit between machines.
        return abs(round(fsum(count / size * log2(size / count) for count in counts), 12))
