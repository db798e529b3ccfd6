"""Whether an image that looks the same occurred before."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ..base import DatasetScore, Kind, Subject, Tier, Value
from ..image.phash import Phash, phash

if TYPE_CHECKING:
    from ..sample_view import View

_FARTHEST = 10  # bits; beyond, images that have nothing to do with each other are near


@dataclass(frozen=True, kw_only=True)
class NearDuplicate(DatasetScore):
    """Whether an image that looks the same occurs earlier and stays: its phash differs in at most ``distance`` bits.

    Images are compared in the order of shards and samples. An image is a near duplicate if it is within the distance of
    an earlier image that is not a near duplicate itself. So no two remaining images are near each other, and each of
    the others is near a remaining one. ``distance`` is 0 to 10; the time grows fast with it. Flat images have nearly
    the same phash. ``among="all"``: all samples of the shards are compared, even those that other terms drop, and all
    images are decoded. The value is the same in score, filter and cut. ``among="kept"``: only samples that all other
    terms keep are compared. One image of each group stays, and images of samples that other terms drop are not decoded.
    Source: see phash; pairs are found by Manku, Jain and Das Sarma, WWW 2007. Data-Juicer's image_deduplicator with
    phash is distance 0.
    """

    name: ClassVar[str] = "near_duplicate"
    tier: ClassVar[Tier] = "pixels"
    kind: ClassVar[Kind] = "boolean"
    subject: ClassVar[Subject] = "image"
    packages: ClassVar[tuple[str, ...]] = Phash.packages
    compares: ClassVar[frozenset[str]] = DatasetScore.compares | {"distance"}

    image: str = ""
    distance: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.distance <= _FARTHEST:
            raise ValueError(
                f"near_duplicate: distance={self.distance!r} must be a number of bits from 0 to {_FARTHEST}"
            )

    def gather(self, view: "View") -> bytes:
        """Return 8 bytes for each image."""
        return b"".join(phash(picture) for picture in view.pictures(self.image))

    def resolve(
        self, records: Iterable[tuple[int, int, bytes]], folder: Path, *, memory: int = 256 << 20
    ) -> Iterator[tuple[int, int, Value]]:
        """Yield whether each image is near one that stays, in order."""
        from .comparing.same import near_kept

        return near_kept(records, self.distance, folder, memory)
