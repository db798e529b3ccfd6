"""Whether an image occurred before."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ..base import DatasetScore, Kind, Subject, Tier, Value

if TYPE_CHECKING:
    from ..sample_view import View


@dataclass(frozen=True, kw_only=True)
class Duplicate(DatasetScore):
    """Whether the same image, byte for byte, occurs earlier: in an earlier shard, or earlier in the same shard.

    The first of several is not a duplicate. Images are compared by xxh3_128 of their bytes; captions do not matter.
    ``among="all"``: all samples of the shards are compared, even those that other terms drop. The value is the same in
    score, filter and cut. ``caption_words >= 4 and not duplicate`` loses an image whose first copy has a short caption.
    ``among="kept"``: only samples that all other terms keep are compared. One copy of each stays, and images of samples
    that other terms drop are not read. Source: xxHash; Data-Juicer's image_deduplicator compares perceptual hashes
    instead, see near_duplicate.
    """

    name: ClassVar[str] = "duplicate"
    tier: ClassVar[Tier] = "pixels"  # reads all images, but decodes none
    kind: ClassVar[Kind] = "boolean"
    subject: ClassVar[Subject] = "image"

    image: str = ""

    def gather(self, view: "View") -> bytes:
        """Return 16 bytes for each image."""
        return b"".join(view.digests(self.image))

    def resolve(
        self, records: Iterable[tuple[int, int, bytes]], folder: Path, *, memory: int = 256 << 20
    ) -> Iterator[tuple[int, int, Value]]:
        """Yield whether each image occurred before, in order."""
        from .comparing.same import later_of_same

        return later_of_same(records, 16, folder, memory)
