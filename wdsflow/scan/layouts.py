"""What samples are that are no image-text pairs: several images, interleaved documents, other media."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from wdsflow.media import media_kind
from wdsflow.scan.content.interleaved import ImageOrder
from wdsflow.scan.content.other import kind_of
from wdsflow.text.words import how_many

from .evidence import Part, Shape, ShardEvidence, Tally
from .naming import IMAGES, is_side_image

_Found = tuple[str, int, ImageOrder]  # key, offset of the json, what it says


class InterleavedCount:
    """Collects what the json of one shard says; ``end`` after each run, ``finish`` after the last.

    Two conventions differ between sets, so they are taken from the shard: whether texts have image tokens at all, and
    whether files that a json lists are members of its sample or only where they came from.
    """

    def __init__(self) -> None:
        self.flavours: dict[str, int] = {}
        self.open: list[_Found] = []  # of the open run
        self.tokens = self.pictured = 0  # runs with places for images; with images
        self.named = 0  # runs that have a file that their json lists
        self.differ, self.untold, self.missing = Tally(), Tally(), Tally()

    def see(self, key: str, offset: int, found: ImageOrder) -> None:
        """Take one json of the open run."""
        self.flavours[found.flavour] = self.flavours.get(found.flavour, 0) + 1
        self.open.append((key, offset, found))

    def end(self, parts: Sequence[Part]) -> None:
        """Compare the json of the open run, which has these parts, with its images and files."""
        if len(self.open) == 1:  # of several nobody knows which one orders the images
            self._compare(*self.open[0], [part.suffix.lower() for part in parts])
        self.open.clear()

    def _compare(self, key: str, offset: int, found: ImageOrder, suffixes: list[str]) -> None:
        images = [name for name in suffixes if kind_of(name) == "image"]
        counts = {len(images), sum(not is_side_image(name) for name in images)}
        self.tokens += found.images > 0
        self.pictured += bool(images)
        if found.images not in counts and not any(media_kind(name) == "video" for name in suffixes):
            tally = self.differ if found.images else self.untold
            tally.add(key, offset, f"{found.images} in the json, {max(counts)} in the sample")
        base = key.rpartition("/")[2].lower()
        # An image may have been written in another format than the json says.
        media = [*images, *(name for name in suffixes if media_kind(name))]
        there = {name.rpartition(".")[0] for name in (*media, *(f"{base}.{name}" for name in media))}
        lacking = [name for name in found.files if name.rpartition(".")[0] not in there]
        self.named += len(lacking) < len(found.files)
        if lacking:
            self.missing.add(key, offset, lacking[0])

    def finish(self, shard: ShardEvidence) -> None:
        """Write what was found into the evidence of the shard."""
        shard.interleaved = self.flavours
        if self.tokens and self.pictured:
            for tally in (self.differ, self.untold):
                if tally.count:
                    known = shard.tallies.setdefault("interleaved.images-differ", Tally())
                    known.add(tally.key, tally.offset, tally.detail, tally.count)
        if self.named and self.missing.count:
            shard.tallies["interleaved.file-missing"] = self.missing


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
