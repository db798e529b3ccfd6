"""Interleaved documents: JSON that orders texts and images, compared with the sample's images."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from wdsflow.media import media_kind
from wdsflow.scan.content.field_kinds import kind_of

from .evidence import ShardEvidence, Tally
from .naming import is_side_image
from .shapes import Part

_IMAGE = "<image>"
# Types of parts in the content of a message that are images.
_IMAGE_TYPES = ("image", "image_url", "input_image")
# Flavour, name of the list of turns, names in a turn: the speaker, the content.
_CONVERSATIONS = (
    ("llava", "conversations", "from", "value"),
    ("chat", "messages", "role", "content"),
)
# Names next to a conversation that hold file names, or lists of them.
_FILES = ("image", "images", "video", "videos", "audio", "audios")
# Names of a file name in an object.
_IN_OBJECT = ("path", "file_name", "image_name", "image")
_FILE = re.compile(r"[^\x00-\x1f]{1,250}\.[A-Za-z0-9]{2,5}")


class ImageOrder(NamedTuple):
    """The images among the texts of an interleaved document, by its json."""

    # "llava", "chat", "mmc4" or "obelics".
    flavour: str
    # How many the texts refer to.
    images: int
    # Names of files that it lists, in lower case and without folders; urls are left out.
    files: tuple[str, ...]


def image_order(value: dict[str, object]) -> ImageOrder | None:
    r"""Return the order of images among texts by a json object; None for any other object.

    >>> image_order({"image": "a.jpg", "conversations": [{"from": "human", "value": "<image>\nWhat is it?"}]})
    ImageOrder(flavour='llava', images=1, files=('a.jpg',))
    >>> image_order({"images": ["a.jpg"], "caption": "two of <image>"}) is None
    True
    """
    for flavour, name, role, content in _CONVERSATIONS:
        messages = _objects(value.get(name), role, content)
        if messages:
            images = sum(_images_in(message[content]) for message in messages)
            return ImageOrder(flavour, images, _file_names(_listed_files(value)))
    return _mmc4(value) or _obelics(value)


def _mmc4(value: dict[str, object]) -> ImageOrder | None:
    info = _objects(value.get("image_info"), "image_name")
    if not info or not isinstance(value.get("text_list"), list):
        return None
    files = _file_names([image["image_name"] for image in info])
    return ImageOrder("mmc4", len(info), files)


def _obelics(value: dict[str, object]) -> ImageOrder | None:
    """Return the order of two equally long lists, texts and images.

    At each position exactly one of them has an item. None for other values.
    """
    texts, images = value.get("texts"), value.get("images")
    if not isinstance(texts, list) or not isinstance(images, list):
        return None
    if not texts or len(texts) != len(images):
        return None
    for text, image in zip(texts, images, strict=True):
        if (text is None) is (image is None):
            return None
    shown = [image for image in images if image is not None]
    return ImageOrder("obelics", len(shown), _file_names(shown))


def _objects(items: object, *names: str) -> list[dict[str, object]]:
    """Return a list of objects that all have these names; an empty one for anything else."""
    if not isinstance(items, list):
        return []
    for item in items:
        if not isinstance(item, dict) or not all(name in item for name in names):
            return []
    return items


def _images_in(content: object) -> int:
    """Return how many images the content of a message shows: tokens in a text, parts of a list."""
    if isinstance(content, str):
        return content.count(_IMAGE)
    if not isinstance(content, list):
        return 0
    images = 0
    for part in content:
        if not isinstance(part, dict):
            continue
        images += part.get("type") in _IMAGE_TYPES
        text = part.get("text")
        if isinstance(text, str):
            images += text.count(_IMAGE)
    return images


def _listed_files(value: dict[str, object]) -> list[object]:
    """Return the files that an object lists next to a conversation."""
    files: list[object] = []
    for name in _FILES:
        item = value.get(name)
        if isinstance(item, list):
            files.extend(item)
        else:
            files.append(item)
    return files


def _file_names(items: list[object]) -> tuple[str, ...]:
    """Return the names of files among values, without folders and in lower case, each once."""
    names: dict[str, None] = {}
    for item in items:
        name = item
        if isinstance(item, dict):
            name = next((item[key] for key in _IN_OBJECT if key in item), None)
        if isinstance(name, str) and "://" not in name and _FILE.fullmatch(name):
            base = re.split(r"[/\\]", name)[-1]
            names[base.lower()] = None
    return tuple(names)


class InterleavedCount:
    """Counts the interleaved documents of one shard.

    Call ``end`` after each run, ``finish`` after the last.

    Two conventions differ between sets, so they are taken from the shard: whether texts have image
    tokens at all, and whether files that a json lists are members of its sample or only their
    origin.
    """

    def __init__(self) -> None:
        self.flavours: Counter[str] = Counter()
        # Of the open run: key and offset of the json, its order.
        self.open: list[tuple[str, int, ImageOrder]] = []
        # Runs whose texts refer to images.
        self.tokens = 0
        # Runs with images.
        self.pictured = 0
        # Runs that have a file that their json lists.
        self.named = 0
        # Runs that have more or fewer images than their
        # texts refer to; the same if these refer to none.
        self.differ = Tally()
        self.unplaced = Tally()
        # Runs without a file that their json lists.
        self.missing = Tally()

    def add(self, key: str, offset: int, order: ImageOrder) -> None:
        """Take one json of the open run."""
        self.flavours[order.flavour] += 1
        self.open.append((key, offset, order))

    def end(self, parts: Sequence[Part]) -> None:
        """Compare the json of the open run, which has these parts, with its images and files."""
        # Of several, any could order the images.
        if len(self.open) == 1:
            key, offset, order = self.open[0]
            suffixes = [part.suffix.lower() for part in parts]
            self._compare_images(key, offset, order, suffixes)
            self._compare_files(key, offset, order, suffixes)
        self.open.clear()

    def _compare_images(
        self, key: str, offset: int, order: ImageOrder, suffixes: list[str]
    ) -> None:
        images = [name for name in suffixes if kind_of(name) == "image"]
        # Masks and the like may count or not.
        counts = {len(images), sum(not is_side_image(name) for name in images)}
        self.tokens += order.images > 0
        self.pictured += bool(images)
        # Images may be frames of a video.
        if order.images in counts or any(media_kind(name) == "video" for name in suffixes):
            return
        tally = self.differ if order.images else self.unplaced
        tally.add(key, offset, f"{order.images} in the json, {max(counts)} in the sample")

    def _compare_files(self, key: str, offset: int, order: ImageOrder, suffixes: list[str]) -> None:
        base = key.rpartition("/")[2].lower()
        media = [name for name in suffixes if kind_of(name) == "image"]
        media += [name for name in suffixes if media_kind(name)]
        # An image may have been written in another format than in the json: extensions do not
        # count. A json may list the name of the member or its field.
        stems = {_stem(name) for name in media} | {_stem(f"{base}.{name}") for name in media}
        missing = [name for name in order.files if _stem(name) not in stems]
        self.named += len(missing) < len(order.files)
        if missing:
            self.missing.add(key, offset, missing[0])

    def finish(self, shard: ShardEvidence) -> None:
        """Write the counts into the evidence of the shard."""
        shard.interleaved = dict(self.flavours)
        if self.tokens and self.pictured:
            for tally in (self.differ, self.unplaced):
                if tally.count:
                    total = shard.tallies.setdefault("interleaved.images-differ", Tally())
                    total.add(tally.key, tally.offset, tally.detail, tally.count)
        if self.named and self.missing.count:
            shard.tallies["interleaved.file-missing"] = self.missing


def _stem(name: str) -> str:
    return name.rpartition(".")[0]
