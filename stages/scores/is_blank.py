"""Whether an image shows nothing."""

from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from .base import Kind, PixelScore
from .picture import Picture


@dataclass(frozen=True, kw_only=True)
class IsBlank(PixelScore):
    """Whether the image is of one colour: nearly all pixels lie close to the median, in red, green and blue each.

    At least ``share`` of the values of each channel lie within ``tolerance`` levels of its median. Source: our own.
    """

    name: ClassVar[str] = "is_blank"
    kind: ClassVar[Kind] = "boolean"

    tolerance: int = 8
    share: float = 0.999

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.tolerance <= 255 or not 0 < self.share <= 1:
            raise ValueError(
                f"is_blank: tolerance={self.tolerance} lies outside 0..255, or share={self.share} outside 0..1"
            )

    def of(self, picture: Picture) -> bool:
        """Return whether it is blank."""
        counts = picture.image.histogram()
        return all(self._even(counts[start : start + 256]) for start in (0, 256, 512))

    def _even(self, counts: list[int]) -> bool:
        size = sum(counts)
        median = next(level for level, below in enumerate(accumulate(counts)) if 2 * below >= size)
        near = counts[max(0, median - self.tolerance) : median + self.tolerance + 1]
        return sum(near) >= self.share * size
