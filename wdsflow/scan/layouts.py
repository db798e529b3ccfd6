"""What kind of samples shards hold: image-text pairs, several images, interleaved documents, video or audio."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from wdsflow.media.media_format import media_kind
from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.text.words import how_many

from .evidence import Shape, ShardEvidence
from .naming import IMAGES, is_side_image

LayoutKind = Literal["pairs", "images", "interleaved", "video", "audio", "text", ""]

_FLAVOURS = {
    "llava": "LLaVA conversations",
    "chat": "chat messages",
    "mmc4": "MMC4 documents",
    "obelics": "OBELICS documents",
}
_VIDEO_AS_IMAGE = ("mpg", "mpeg")  # which readers take for images


@dataclass(frozen=True, slots=True)
class SetLayout:
    """The layout of most samples."""

    kind: LayoutKind
    name: str  # for people, such as "image-text pairs"; "" where none is known
    images: tuple[int, int] = (0, 0)  # least and most images of a sample; masks and the like do not count

    def text(self) -> str:
        """Return the name with the number of images, where samples have several or may have."""
        least, most = self.images
        if self.kind not in ("images", "interleaved") or not most:
            return self.name
        amount = how_many(most, "image") if least == most else f"{least:,} to {how_many(most, 'image')}"
        return f"{self.name}, {amount} a sample"

    @property
    def is_image_text(self) -> bool:
        """Whether a sample is at most one image, as readers of image-text pairs expect it."""
        return self.kind not in ("images", "interleaved", "video", "audio")


@dataclass(slots=True)
class _LayoutCounts:
    """How many samples have what."""

    samples: int = 0
    several: int = 0  # samples with more than one image
    having: Counter[str] = field(default_factory=Counter)  # "image", "video", "audio", "text", "json", "integer"
    images: set[int] = field(default_factory=set)  # numbers of images in a sample

    def most(self, kind: str) -> bool:
        return self.having[kind] * 2 > self.samples


def layout_of(shards: Iterable[ShardEvidence]) -> SetLayout:
    """Return the layout of most samples, by their fields, and by their json where the scan read it."""
    counts, flavours, numbered = _LayoutCounts(), Counter[str](), False
    for shard in shards:
        flavours.update(shard.interleaved)
        numbered = numbered or shard.numbered
        dotted = shard.tally("name.dotted").count > 0
        for item in shard.runs.counted():
            _add(counts, item.shape, item.count, dotted=dotted)
    images = (min(counts.images, default=0), max(counts.images, default=0))
    if sum(flavours.values()) * 2 > counts.samples and (len(counts.having) > 1 or images[1]):
        flavour = _FLAVOURS[flavours.most_common(1)[0][0]]
        medium = next((each for each in ("video", "audio") if counts.most(each) and not counts.most("image")), "")
        return SetLayout("interleaved", f"interleaved {medium or 'image'}-text ({flavour})", images)
    for medium in ("video", "audio"):
        if counts.most(medium):
            return SetLayout("video" if medium == "video" else "audio", medium + _company(counts))
    if counts.several * 2 > counts.samples or (numbered and counts.several):
        return SetLayout("images", f"several images{_company(counts)}", images)
    if counts.most("image"):
        return SetLayout("pairs", "image-text pairs" if counts.most("text") else f"images{_company(counts)}", images)
    return SetLayout("text", "text") if counts.most("text") else SetLayout("", "")


def _company(counts: _LayoutCounts) -> str:
    for kind, name in (("text", "captions"), ("json", "json"), ("integer", "class numbers")):
        if counts.most(kind):
            return f" with {name}"
    return ""


def _add(counts: _LayoutCounts, shape: Shape, count: int, *, dotted: bool) -> None:
    """Count the runs of one shape. ``dotted``: runs without a plain field may be several samples in one."""
    names = [part.suffix.lower() for part in shape]
    kinds = Counter(_kind(name) for name in names)
    if dotted and all("." in name for name in names):
        kinds["image"] = min(kinds["image"], 1)
    counts.samples += count
    counts.several += count * (kinds["image"] > 1)
    counts.images.add(kinds["image"])
    for kind, number in kinds.items():
        if kind and number:
            counts.having[kind] += count


@lru_cache(maxsize=4096)
def _kind(name: str) -> str:
    extension = name.rpartition(".")[2]
    if extension in _VIDEO_AS_IMAGE:
        return "video"
    if medium := media_kind(name):
        return medium
    kind = kind_of(name)
    if kind == "image" or extension in IMAGES:
        return "" if is_side_image(name) else "image"
    return "text" if extension in ("caption", "captions") else kind if kind in ("text", "json", "integer") else ""
