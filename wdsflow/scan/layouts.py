"""The layout of a set: image-text pairs, several images, interleaved documents, other media."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from wdsflow.media import media_kind
from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.text.words import how_many

from .evidence import ShardEvidence
from .naming import IMAGES, is_side_image
from .shapes import ShapeCount

LayoutKind = Literal["pairs", "images", "interleaved", "video", "audio", "text", ""]

_FLAVOURS = {
    "llava": "LLaVA conversations",
    "chat": "chat messages",
    "mmc4": "MMC4 documents",
    "obelics": "OBELICS documents",
}
# What images, video and audio come with: the first that most samples have.
_COMPANIONS = (("text", "captions"), ("json", "json"), ("integer", "class numbers"))
# Which readers decode as images.
_VIDEO_AS_IMAGE = ("mpg", "mpeg")


@dataclass(frozen=True, slots=True)
class SetLayout:
    """The layout of most samples."""

    kind: LayoutKind
    # For reports, such as "image-text pairs"; "" if there is none.
    name: str
    # Least and most images of a sample; masks and the like do not count.
    images: tuple[int, int] = (0, 0)

    def text(self) -> str:
        """Return the name with the number of images, where samples have several or may have."""
        least, most = self.images
        if self.kind not in ("images", "interleaved") or not most:
            return self.name
        amount = how_many(most, "image")
        if least != most:
            amount = f"{least:,} to {amount}"
        return f"{self.name}, {amount} a sample"

    @property
    def is_image_text(self) -> bool:
        """Whether a sample is at most one image, as readers of image-text pairs expect it."""
        return self.kind not in ("images", "interleaved", "video", "audio")


def layout_of(shards: Iterable[ShardEvidence]) -> SetLayout:
    """Return the layout of most samples, judged by their fields, and by JSON if it was read."""
    count = _LayoutCount()
    for shard in shards:
        count.add(shard)
    return count.layout()


class _LayoutCount:
    """Counts samples by the kinds of their fields."""

    def __init__(self) -> None:
        self.samples = 0
        # Samples with more than one image.
        self.with_several = 0
        # Samples that have a field of a kind.
        self.with_kind: Counter[str] = Counter()
        # Interleaved documents.
        self.flavours: Counter[str] = Counter()
        # Some shard has files with numbers: 0.jpg, 1.jpg.
        self.numbered = False
        # Images in a sample.
        self.image_counts: set[int] = set()

    def add(self, shard: ShardEvidence) -> None:
        self.flavours.update(shard.interleaved)
        self.numbered = self.numbered or shard.numbered
        dotted = shard.tally("name.dotted").count > 0
        for item in shard.runs.shape_counts():
            self._add_shape(item, dotted=dotted)

    def _add_shape(self, item: ShapeCount, *, dotted: bool) -> None:
        names = [part.suffix.lower() for part in item.shape]
        kinds = Counter(map(_kind, names))
        # May be several samples in one.
        if dotted and all("." in name for name in names):
            kinds["image"] = min(kinds["image"], 1)
        self.samples += item.count
        if kinds["image"] > 1:
            self.with_several += item.count
        self.image_counts.add(kinds["image"])
        for kind, number in kinds.items():
            if kind and number:
                self.with_kind[kind] += item.count

    def layout(self) -> SetLayout:
        most = {kind for kind, count in self.with_kind.items() if self._is_most(count)}
        images = min(self.image_counts, default=0), max(self.image_counts, default=0)
        companions = [name for kind, name in _COMPANIONS if kind in most]
        company = f" with {companions[0]}" if companions else ""
        # A json alone is no document with images.
        has_others = len(self.with_kind) > 1 or images[1] > 0
        if self._is_most(sum(self.flavours.values())) and has_others:
            return SetLayout("interleaved", self._interleaved_name(most), images)
        if "video" in most:
            return SetLayout("video", f"video{company}")
        if "audio" in most:
            return SetLayout("audio", f"audio{company}")
        if self._is_most(self.with_several) or (self.numbered and self.with_several):
            return SetLayout("images", f"several images{company}", images)
        if "image" in most:
            name = "image-text pairs" if "text" in most else f"images{company}"
            return SetLayout("pairs", name, images)
        if "text" in most:
            return SetLayout("text", "text")
        return SetLayout("", "")

    def _is_most(self, count: int) -> bool:
        return count * 2 > self.samples

    def _interleaved_name(self, most: set[str]) -> str:
        medium = "image"
        if "image" not in most:
            medium = next((kind for kind in ("video", "audio") if kind in most), "image")
        flavour, _ = self.flavours.most_common(1)[0]
        return f"interleaved {medium}-text ({_FLAVOURS[flavour]})"


@lru_cache(maxsize=4096)
def _kind(name: str) -> str:
    """Return the kind of a field: "image", "video", "audio", "text", "json" or "integer".

    "" for side images, such as masks, and for all other fields.
    """
    extension = name.rpartition(".")[2]
    if extension in _VIDEO_AS_IMAGE:
        return "video"
    if medium := media_kind(name):
        return medium
    kind = kind_of(name)
    if kind == "image" or extension in IMAGES:
        return "" if is_side_image(name) else "image"
    if extension in ("caption", "captions"):
        return "text"
    return kind if kind in ("text", "json", "integer") else ""
