"""Whether an image shows nothing."""

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from ..base import Kind, PixelScore
from .picture import Picture

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

_ROWS = 16  # one row of this many is checked first: it decides most pictures


@dataclass(frozen=True, kw_only=True)
class IsBlank(PixelScore):
    """Whether the image has one colour: nearly all pixels are close to the median, in each of red, green and blue.

    At least ``share`` of the values of each channel are within ``tolerance`` levels of its median. Source: our own.
    """

    name: ClassVar[str] = "is_blank"
    kind: ClassVar[Kind] = "boolean"

    tolerance: int = 8
    share: float = 0.999

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.tolerance <= 255 or not 0 < self.share <= 1:
            raise ValueError(
                f"is_blank: tolerance={self.tolerance} is outside 0..255, or share={self.share} outside 0..1"
            )

    def of(self, picture: Picture) -> bool:
        """Return whether it is blank."""
        return not self._varied(picture) and all(self._even(channel) for channel in _channels(picture.image))

    def _varied(self, picture: Picture) -> bool:
        """Return whether some rows alone have more pixels off any median than a blank image may have in all."""
        import numpy as np

        width, height = picture.size
        some = picture.rows(_ROWS)
        counts = (np.bincount(some[..., channel].ravel(), minlength=256) for channel in range(3))
        return any(width * height - self._off(channel) < self.share * width * height for channel in counts)

    def _off(self, counts: "NDArray[np.intp]") -> int:
        """Return how many values are outside of any range as wide as that around a median, at least."""
        import numpy as np

        below = np.concatenate(([0], np.cumsum(counts)))
        wide = min(2 * self.tolerance + 1, 256)
        return int(below[-1] - (below[wide:] - below[:-wide]).max())

    def _even(self, counts: list[int]) -> bool:
        size = sum(counts)
        median = next(level for level, below in enumerate(accumulate(counts)) if 2 * below >= size)
        near = counts[max(0, median - self.tolerance) : median + self.tolerance + 1]
        return sum(near) >= self.share * size


def _channels(image: "Image") -> list[list[int]]:
    counts = image.histogram()
    return [counts[start : start + 256] for start in (0, 256, 512)]
