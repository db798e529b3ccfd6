"""Whether an image is animated."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..base import ImageScore, Kind, Tier, Value, bare
from ..field_contents import moves

if TYPE_CHECKING:
    from ..sample_view import View


@dataclass(frozen=True, kw_only=True)
class Animated(ImageScore):
    """Whether the file is an animation: GIF, WebP or PNG of several frames. Training sees only the first frame.

    A GIF counts if it loops, or if a second frame begins within its first MiB. Source: the header.
    """

    name: ClassVar[str] = "animated"
    tier: ClassVar[Tier] = "header"
    kind: ClassVar[Kind] = "boolean"

    def score(self, view: "View") -> Value:
        """Return whether each image is animated."""
        names = view.image_names(self.image)
        return bare([moves(view, *each) for each in zip(names, view.headers(self.image), strict=True)])
