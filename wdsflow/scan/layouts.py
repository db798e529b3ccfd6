"""Samples that are not image-text pairs: several images, interleaved documents, other media."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from wdsflow.media import media_kind
from wdsflow.scan.content.other import kind_of
from wdsflow.text.words import how_many

from .evidence import Part, ShardEvidence, Tally
from .naming import IMAGES, is_side_image

_IMAGE = "<image>"
_FILES = ("image", "images", "video", "videos", "audio", "audios")
_IN_OBJECT = ("path", "file_name", "image_name", "image")
_FILE = re.compile(r"[^\x00-\x1f]{1,250}\.[A-Za-z0-9]{2,5}")

LayoutKind = Literal["pairs", "images", "interleaved", "video", "audio", "text", ""]

_FLAVOURS = {
    "llava": "LLaVA conversations",
    "chat": "chat messages",
    "mmc4": "MMC4 documents",
    "obelics": "OBELICS documents",
}
# Which readers decode as images.
_VIDEO_AS_IMAGE = ("mpg", "mpeg")


class ImageOrder(NamedTuple):
    """The images among the texts of an interleaved document, by its json."""

    # "llava", "chat", "mmc4" or "obelics".
    flavour: str
    # Places for images.
    images: int
    # Names of files that it lists, in lower case and without folders; urls are left out.
    files: tuple[str, ...]


def interleaved(value: dict[str, object]) -> ImageOrder | None:
    r"""Return the order of images among texts by a json object; None for any other object.

    >>> interleaved({"image": "a.jpg", "conversations": [{"from": "human", "value": "<image>\nWhat is it?"}]})
    ImageOrder(flavour='llava', images=1, files=('a.jpg',))
    >>> interleaved({"images": ["a.jpg"], "caption": "two of <image>"}) is None
    True
    """
    for flavour, name, role, content in (
        ("llava", "conversations", "from", "value"),
        ("chat", "messages", "role", "content"),
    ):
        if turns := _objects(value.get(name), role, content):
            files = [value.get(each) for each in _FILES]
            listed = [
                each for item in files for each in (item if isinstance(item, list) else [item])
            ]
            return ImageOrder(
                flavour, sum(_tokens(turn[content]) for turn in turns), _names(listed)
            )
    info, texts, images = (
        _objects(value.get("image_info"), "image_name"),
        value.get("texts"),
        value.get("images"),
    )
    if info and isinstance(value.get("text_list"), list):
        return ImageOrder("mmc4", len(info), _names([each["image_name"] for each in info]))
    if isinstance(texts, list) and isinstance(images, list) and len(texts) == len(images) > 0:
        shown = [image for image in images if image is not None]
        if all(
            (text is None) is not (image is None) for text, image in zip(texts, images, strict=True)
        ):
            return ImageOrder("obelics", len(shown), _names(shown))
    return None


def _objects(items: object, *names: str) -> list[dict[str, object]]:
    """Return a list of objects that all have these names; an empty one for anything else."""
    if not isinstance(items, list):
        return []
    fit = all(isinstance(each, dict) and all(name in each for name in names) for each in items)
    return items if fit else []


def _tokens(content: object) -> int:
    """Return how many images the content of a turn shows: tokens in a text, parts of a list."""
    if isinstance(content, str):
        return content.count(_IMAGE)
    parts = (
        [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    )
    shown = sum(part.get("type") in ("image", "image_url", "input_image") for part in parts)
    return shown + sum(
        _tokens(part.get("text")) for part in parts if isinstance(part.get("text"), str)
    )


def _names(items: list[object]) -> tuple[str, ...]:
    """Return the names of files among values, without folders and in lower case, each once."""
    names: dict[str, None] = {}
    for item in items:
        name = (
            next((item[each] for each in _IN_OBJECT if each in item), None)
            if isinstance(item, dict)
            else item
        )
        if isinstance(name, str) and "://" not in name and _FILE.fullmatch(name):
            names[re.split(r"[/\\]", name)[-1].lower()] = None
    return tuple(names)


class InterleavedCount:
    """Counts the interleaved documents of one shard; call ``end`` after each run, ``finish`` after the last.

    Two conventions differ between sets, so they are taken from the shard: whether texts have image
    tokens at all, and whether files that a json lists are members of its sample or only their
    origin.
    """

    def __init__(self) -> None:
        self.flavours: Counter[str] = Counter()
        # Of the open run: key and offset of the json, its order.
        self.open: list[tuple[str, int, ImageOrder]] = []
        # Runs with places for images; with images.
        self.tokens = self.pictured = 0
        # Runs that have a file that their json lists.
        self.named = 0
        self.differ, self.unplaced, self.missing = Tally(), Tally(), Tally()

    def see(self, key: str, offset: int, found: ImageOrder) -> None:
        """Take one json of the open run."""
        self.flavours[found.flavour] += 1
        self.open.append((key, offset, found))

    def end(self, parts: Sequence[Part]) -> None:
        """Compare the json of the open run, which has these parts, with its images and files."""
        # Of several, any could order the images.
        if len(self.open) == 1:
            self._compare(*self.open[0], [part.suffix.lower() for part in parts])
        self.open.clear()

    def _compare(self, key: str, offset: int, found: ImageOrder, suffixes: list[str]) -> None:
        images = [name for name in suffixes if kind_of(name) == "image"]
        counts = {len(images), sum(not is_side_image(name) for name in images)}
        self.tokens += found.images > 0
        self.pictured += bool(images)
        if found.images not in counts and not any(media_kind(name) == "video" for name in suffixes):
            tally = self.differ if found.images else self.unplaced
            tally.add(key, offset, f"{found.images} in the json, {max(counts)} in the sample")
        base = key.rpartition("/")[2].lower()
        # An image may have been written in another format than in the json.
        media = [*images, *(name for name in suffixes if media_kind(name))]
        there = {
            name.rpartition(".")[0] for name in (*media, *(f"{base}.{name}" for name in media))
        }
        lacking = [name for name in found.files if name.rpartition(".")[0] not in there]
        self.named += len(lacking) < len(found.files)
        if lacking:
            self.missing.add(key, offset, lacking[0])

    def finish(self, shard: ShardEvidence) -> None:
        """Write the counts into the evidence of the shard."""
        shard.interleaved = dict(self.flavours)
        if self.tokens and self.pictured:
            for tally in (self.differ, self.unplaced):
                if tally.count:
                    known = shard.tallies.setdefault("interleaved.images-differ", Tally())
                    known.add(tally.key, tally.offset, tally.detail, tally.count)
        if self.named and self.missing.count:
            shard.tallies["interleaved.file-missing"] = self.missing


@dataclass(frozen=True, slots=True)
class SetLayout:
    """The layout of most samples."""

    kind: LayoutKind
    # For reports, such as "image-text pairs"; "" where none is known.
    name: str
    # Least and most images of a sample; masks and the like do not count.
    images: tuple[int, int] = (0, 0)

    def text(self) -> str:
        """Return the name with the number of images, where samples have several or may have."""
        least, most = self.images
        if self.kind not in ("images", "interleaved") or not most:
            return self.name
        amount = (
            how_many(most, "image") if least == most else f"{least:,} to {how_many(most, 'image')}"
        )
        return f"{self.name}, {amount} a sample"

    @property
    def is_image_text(self) -> bool:
        """Whether a sample is at most one image, as readers of image-text pairs expect it."""
        return self.kind not in ("images", "interleaved", "video", "audio")


def layout_of(shards: Iterable[ShardEvidence]) -> SetLayout:
    """Return the layout of most samples, by their fields, and by their json where the scan read it."""
    # samples; those with more than one image.
    samples = several = 0
    having, flavours, numbered = Counter[str](), Counter[str](), False
    # Of images in a sample.
    numbers: set[int] = set()
    for shard in shards:
        flavours.update(shard.interleaved)
        numbered = numbered or shard.numbered
        dotted = shard.tally("name.dotted").count > 0
        for item in shard.runs.counted():
            names = [part.suffix.lower() for part in item.shape]
            kinds = Counter(map(_kind, names))
            # May be several samples in one.
            if dotted and all("." in name for name in names):
                kinds["image"] = min(kinds["image"], 1)
            samples += item.count
            several += item.count * (kinds["image"] > 1)
            numbers.add(kinds["image"])
            having.update({kind: item.count for kind, number in kinds.items() if kind and number})
    most = {kind for kind, count in having.items() if count * 2 > samples}
    images = (min(numbers, default=0), max(numbers, default=0))
    extra = (("text", "captions"), ("json", "json"), ("integer", "class numbers"))
    company = next((f" with {name}" for kind, name in extra if kind in most), "")
    if sum(flavours.values()) * 2 > samples and (len(having) > 1 or images[1]):
        medium = next(
            (each for each in ("video", "audio") if each in most and "image" not in most), "image"
        )
        return SetLayout(
            "interleaved",
            f"interleaved {medium}-text ({_FLAVOURS[flavours.most_common(1)[0][0]]})",
            images,
        )
    if "video" in most:
        return SetLayout("video", f"video{company}")
    if "audio" in most:
        return SetLayout("audio", f"audio{company}")
    if several * 2 > samples or (numbered and several):
        return SetLayout("images", f"several images{company}", images)
    if "image" in most:
        return SetLayout(
            "pairs", "image-text pairs" if "text" in most else f"images{company}", images
        )
    return SetLayout("text", "text") if "text" in most else SetLayout("", "")


@lru_cache(maxsize=4096)
def _kind(name: str) -> str:
    """Return "image", "video", "audio", "text", "json" or "integer"; "" for side images such as masks, and others."""
    extension = name.rpartition(".")[2]
    if extension in _VIDEO_AS_IMAGE:
        return "video"
    if medium := media_kind(name):
        return medium
    kind = kind_of(name)
    if kind == "image" or extension in IMAGES:
        return "" if is_side_image(name) else "image"
    return (
        "text"
        if extension in ("caption", "captions")
        else kind
        if kind in ("text", "json", "integer")
        else ""
    )
