"""Whether a caption occurred before."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ..base import DatasetScore, Kind, Subject, Tier, Value
from .caption_count import caption_digests

if TYPE_CHECKING:
    from ..sample_view import View


@dataclass(frozen=True, kw_only=True)
class DuplicateCaption(DatasetScore):
    """Whether the same caption occurs earlier: in an earlier shard, or earlier in the same shard.

    The first of several is not a duplicate. Case and the amount of white space make no difference, as for CLIP's
    tokenizer; images do not matter. Source: our own; captions are compared by xxh3_128. ``among="all"``: captions of all
    samples of the shards are compared, even of those that other terms drop. The value is the same in score, filter and
    cut. ``among="kept"``: only captions of samples that all other terms keep are compared, so that one of each stays.
    """

    name: ClassVar[str] = "duplicate_caption"
    tier: ClassVar[Tier] = "text"
    kind: ClassVar[Kind] = "boolean"
    subject: ClassVar[Subject] = "caption"

    caption: str = ""

    def gather(self, view: "View") -> bytes:
        """Return 16 bytes for each caption."""
        return caption_digests(view.captions(self.caption))

    def resolve(
        self, records: Iterable[tuple[int, int, bytes]], folder: Path, *, memory: int = 256 << 20
    ) -> Iterator[tuple[int, int, Value]]:
        """Yield whether each caption occurred before, in order."""
        from .comparing.same import later_of_same

        return later_of_same(records, 16, folder, memory)
