"""How an image is to be turned."""

from dataclasses import dataclass
from typing import ClassVar

from wdsflow.images.header import ImageHeader

from .base import HeaderScore


@dataclass(frozen=True, kw_only=True)
class Orientation(HeaderScore):
    """EXIF orientation of the image: 1 is upright, 3 upside down, 6 and 8 are turned by a quarter.

    1 to 8, and 1 where the file says nothing; another number as it stands in the file. Source: EXIF 2.32, tag 274, or
    XMP where EXIF has none.
    """

    name: ClassVar[str] = "orientation"
    low: ClassVar[float | None] = 0

    def of(self, header: ImageHeader) -> int:
        """Return the orientation."""
        return header.orientation
