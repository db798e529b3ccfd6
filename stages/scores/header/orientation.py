"""The EXIF orientation of an image."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..base import ImageScore, Tier, Value, bare
from ..field_contents import orientation_of

if TYPE_CHECKING:
    from ..sample_view import View


@dataclass(frozen=True, kw_only=True)
class Orientation(ImageScore):
    """EXIF orientation of the image: 1 is upright, 3 upside down, 6 and 8 are turned by a quarter.

    1 to 8, and 1 if the file has none; any other number is returned unchanged. Unknown ("unknown-orientation") for
    AVIF, HEIC and JPEG XL. Source: EXIF 2.32, tag 274, or XMP if EXIF has none.
    """

    name: ClassVar[str] = "orientation"
    tier: ClassVar[Tier] = "header"
    low: ClassVar[float | None] = 0
    revision: ClassVar[int] = 2

    def score(self, view: "View") -> Value:
        """Return the orientation of each image."""
        names = view.image_names(self.image)
        return bare([orientation_of(view, *each) for each in zip(names, view.headers(self.image), strict=True)])
