"""The size of an encoded image."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..base import ImageScore, Tier, Value, bare

if TYPE_CHECKING:
    from ..sample_view import View


@dataclass(frozen=True, kw_only=True)
class Bytes(ImageScore):
    """Size of the encoded image in bytes; in a predicate, sizes may be written as 120KiB or 1.5GB.

    From 0 on. Source: the tar's header; Data-Juicer's image_sizes (whose kb is a KiB here).
    """

    name: ClassVar[str] = "bytes"
    tier: ClassVar[Tier] = "header"
    unit: ClassVar[str] = "bytes"
    low: ClassVar[float | None] = 0

    def score(self, view: "View") -> Value:
        """Return the sizes of the sample's images."""
        return bare([*view.sizes(self.image)])
