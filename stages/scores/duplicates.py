"""Scores that compare samples with each other."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, ClassVar

from .base import MEMORY, DatasetScore, PixelScore, QueryScore, Tier, Value
from .image_headers import header_with_size
from .perceptual_hash import phash_bytes
from .sample_view import View

if TYPE_CHECKING:
    from wdsflow.tables import Tables

# Width, height.
_SIZE = Struct(">II")


class SameScore(QueryScore):
    """Whether the same image or caption occurs earlier.

    With ``counts``, how often it occurs. ``gather`` returns 16 bytes for each.
    """

    counts: ClassVar[bool] = False

    def column(self, tables: "Tables", *, memory: int = MEMORY) -> Iterator[tuple[int, int, Value]]:
        from .comparing.compared_table import equal_items

        return equal_items(tables, "occurrences" if self.counts else "occurrence > 1")


@dataclass(frozen=True, kw_only=True)
class EqualCaptions(SameScore, tier="text", subject="caption"):
    """A score that compares captions; case and the amount of white space make no difference."""

    caption: str = ""

    def gather(self, view: View) -> bytes:
        """Return 16 bytes for each caption."""
        import xxhash

        plain = (" ".join(text.lower().split()) for text in view.captions(self.caption))
        return b"".join(
            xxhash.xxh3_128_digest(text.encode("utf-8", "surrogatepass")) for text in plain
        )


class CaptionCount(
    EqualCaptions, counts=True, name="caption_count", unit="captions", low=1, small_is_good=True
):
    """Number of captions in the data set that equal this one, itself included.

    Boilerplate has a high number.

    Case and the amount of white space make no difference, as for CLIP's tokenizer. From 1 on.
    Source: our own; captions are compared by xxh3_128. ``among="all"``: captions of all samples of
    the shards count, even of those that other terms drop. The value is the same in measure and
    filter. ``among="kept"``: only captions of samples that all other terms keep count.
    """


@dataclass(frozen=True, kw_only=True)
class Duplicate(SameScore, name="duplicate", kind="boolean", subject="image"):
    """Whether the same image, byte for byte, occurs earlier.

    It is in an earlier shard, or earlier in the same shard.

    The first of several is not a duplicate. Images are compared by xxh3_128 of their bytes;
    captions do not matter. ``among="all"``: all samples of the shards are compared, even those that
    other terms drop. The value is the same in measure and filter.
    ``caption_words >= 4 and not duplicate`` loses an image whose first copy has a short caption.
    ``among="kept"``: only samples that all other terms keep are compared. One copy of each stays,
    and images of samples that other terms drop are not read. Source: xxHash; Data-Juicer's
    image_deduplicator compares perceptual hashes instead, see near_duplicate.
    """

    # Reads all images, but decodes none.
    tier: ClassVar[Tier] = "pixels"

    image: str = ""

    def gather(self, view: View) -> bytes:
        """Return 16 bytes for each image."""
        return b"".join(view.digests(self.image))


class DuplicateCaption(EqualCaptions, name="duplicate_caption", kind="boolean"):
    """Whether the same caption occurs earlier: in an earlier shard, or earlier in the same shard.

    The first of several is not a duplicate. Case and the amount of white space make no difference,
    as for CLIP's tokenizer; images do not matter. Source: our own; captions are compared by
    xxh3_128. ``among="all"``: captions of all samples of the shards are compared, even of those
    that other terms drop. The value is the same in measure and filter. ``among="kept"``: only
    captions of samples that all other terms keep are compared, so that one of each stays.
    """


@dataclass(frozen=True, kw_only=True)
class OddSize(
    QueryScore,
    name="odd_size",
    tier="header",
    kind="boolean",
    subject="image",
    compares=DatasetScore.compares | {"iqr_factor"},
):
    """Whether the size of an image is an outlier in the set.

    The size is the square root of width times height.

    It is below the first quartile, or above the third, by more than ``iqr_factor`` times their
    distance (quartiles with linear interpolation). ``among="all"``: all images of the shards are
    compared; ``among="kept"``: only those that all other terms keep. Source: cleanvision's odd_size
    (Tukey's outer fences).
    """

    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"iqr_factor": (0, 1000)}

    image: str = ""
    iqr_factor: float = 3.0

    def gather(self, view: View) -> bytes:
        """Return 8 bytes for each image: width and height."""
        sizes = map(header_with_size, view.headers(self.image))
        return b"".join(_SIZE.pack(header.width, header.height) for header in sizes)

    def column(self, tables: "Tables", *, memory: int = MEMORY) -> Iterator[tuple[int, int, Value]]:
        from .comparing.compared_table import outlier_items

        return outlier_items(tables, self.iqr_factor)


@dataclass(frozen=True, kw_only=True)
class NearDuplicate(
    QueryScore,
    name="near_duplicate",
    tier="pixels",
    kind="boolean",
    subject="image",
    packages=PixelScore.packages,
    compares=DatasetScore.compares | {"distance"},
):
    """Whether an image that looks the same occurs earlier and is kept.

    The phashes of the two differ in at most ``distance`` bits.

    Images are compared in the order of shards and samples. An image is a near duplicate if it is
    within the distance of an earlier image that is not a near duplicate itself. So no two remaining
    images are near each other, and each of the others is near a remaining one. ``distance`` is 0 to
    10; the time grows fast with it. Flat images have nearly the same phash. ``among="all"``: all
    samples of the shards are compared, even those that other terms drop, and all images are
    decoded. The value is the same in measure and filter. ``among="kept"``: only samples that all
    other terms keep are compared. One image of each group stays, and images of samples that other
    terms drop are not decoded. Source: see phash; pairs are found by Manku, Jain and Das Sarma, WWW
    2007. Data-Juicer's image_deduplicator with phash is distance 0.
    """

    # In bits; unrelated images may be within a larger distance.
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"distance": (0, 10)}

    image: str = ""
    distance: int = 4

    def gather(self, view: View) -> bytes:
        """Return 8 bytes for each image."""
        return b"".join(phash_bytes(picture) for picture in view.pictures(self.image))

    def column(self, tables: "Tables", *, memory: int = MEMORY) -> Iterator[tuple[int, int, Value]]:
        from .comparing.compared_table import near_items

        return near_items(tables, self.distance, memory)
