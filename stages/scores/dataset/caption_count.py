"""How often a caption occurs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ..base import DatasetScore, Subject, Tier, Value

if TYPE_CHECKING:
    from ..sample_view import View


@dataclass(frozen=True, kw_only=True)
class CaptionCount(DatasetScore):
    """Number of captions in the data set that equal this one, itself included: boilerplate has a high number.

    Case and the amount of white space make no difference, as for CLIP's tokenizer. From 1 on. Source: our own; captions
    are compared by xxh3_128. ``among="all"``: captions of all samples of the shards count, even of those that other
    terms drop. The value is the same in score, filter and cut. ``among="kept"``: only captions of samples that all
    other terms keep count.
    """

    name: ClassVar[str] = "caption_count"
    tier: ClassVar[Tier] = "text"
    unit: ClassVar[str] = "captions"
    low: ClassVar[float | None] = 1
    subject: ClassVar[Subject] = "caption"

    caption: str = ""

    def gather(self, view: "View") -> bytes:
        """Return 16 bytes for each caption."""
        return caption_digests(view.captions(self.caption))

    def resolve(
        self, records: Iterable[tuple[int, int, bytes]], folder: Path, *, memory: int = 256 << 20
    ) -> Iterator[tuple[int, int, Value]]:
        """Yield how often each caption occurs, in order."""
        from .comparing.same import number_of_same

        return number_of_same(records, 16, folder, memory)


def caption_digests(captions: Iterable[str]) -> bytes:
    """Return 16 bytes for each caption; case and the amount of white space make no difference."""
    import xxhash

    plain = (" ".join(text.lower().split()) for text in captions)
    return b"".join(xxhash.xxh3_128_digest(text.encode("utf-8", "surrogatepass")) for text in plain)
