"""Member names: what is unusual about them, and which fields usually hold images and captions."""

import re
from collections.abc import Callable

from wdsflow.shards.tar.members import is_keyed_by_folder, is_meta

from .evidence import Tally

# Field names that hold captions or images somewhere, the likeliest first.
CAPTIONS = (
    "txt",
    "caption",
    "text",
    "captions",
    "cap",
    "transcript",
    "prompt",
    "json",
    "jsn",
    "cls",
    "label",
    "class",
)
IMAGES = (
    *("jpg", "jpeg", "png", "webp", "jfif", "jpe", "pjpeg", "img", "image"),
    *("gif", "bmp", "tif", "tiff", "heic", "heif", "avif", "jp2", "jxl", "ppm", "svg"),
)
# First parts of field names in common use.
_COMPOUND = frozenset({"seg", "mask", "depth", "txt", "json", "tar"})
_SIDE_IMAGES = frozenset(
    "seg segmentation mask masks depth thumb thumbnail normal edge edges canny alpha pose".split()
)
# 0.jpg, and not 0001.seg.png.
_NUMBERED = re.compile(r"\d{1,4}\.\w{2,5}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

Note = Callable[[str], Tally]


def note_unusual_name(name: str, key: str | None, offset: int, note: Note) -> None:
    """Count everything that is unusual about one member's full name."""
    base = name.rpartition("/")[2]
    if name.startswith("/"):
        note("name.absolute").add(key, offset, name)
    if ".." in name.split("/"):
        note("name.parent").add(key, offset, name)
    if _CONTROL.search(name):
        note("name.control").add(key, offset, name)
    if not name.isascii():
        foreign = "name.junk-not-utf8" if key is None else "name.not-utf8"
        note("name.not-ascii" if is_utf8(name) else foreign).add(key, offset, name)
    if "__MACOSX" in name.split("/"):
        note("name.macosx").add(key, offset, name)
    if is_meta(name):
        note("name.meta").add(key, offset, name)
    elif is_keyed_by_folder(name):
        note("name.keyed-by-folder").add(key, offset, name)
    elif base.startswith("."):
        # Inside a folder the key becomes "folder/", which
        # separates the members before from those after.
        note("name.appledouble" if key is not None else "name.hidden").add(key, offset, name)
    elif key is None:
        note("name.no-field").add(None, offset, name)


def is_utf8(name: str) -> bool:
    r"""Return whether the bytes of a name are UTF-8; tarfile keeps other bytes as surrogates.

    >>> is_utf8("caf\u00e9"), is_utf8("caf\udce9")
    (True, False)
    """
    return not any("\udc80" <= char <= "\udcff" for char in name)


def is_hidden(name: str) -> bool:
    """Return whether Hugging Face datasets skip the member.

    They do if its base name starts with a dot or two underscores.
    """
    return name.rpartition("/")[2].startswith((".", "__"))


def is_dotted(suffix: str) -> bool:
    """Return whether a field name looks like the rest of a base name with a dot in it.

    >>> is_dotted("v1.jpg"), is_dotted("0 (clean version).mp3"), is_dotted("seg.png"), is_dotted("txt.gz")
    (True, True, False, False)
    """
    first, dot, _ = suffix.partition(".")
    return bool(dot) and first.lower() not in _COMPOUND


def is_numbered(suffix: str) -> bool:
    """Return whether a field name is one of a list of files of one sample: ``0.jpg``, ``1.jpg``.

    >>> is_numbered("0.jpg"), is_numbered("012.png"), is_numbered("jpg"), is_numbered("v1.jpg")
    (True, True, False, False)
    """
    return _NUMBERED.fullmatch(suffix) is not None


def is_side_image(suffix: str) -> bool:
    """Return whether an image field in lower case belongs to another image, such as a mask.

    >>> is_side_image("mask.png"), is_side_image("0.depth.png"), is_side_image("0.png")
    (True, True, False)
    """
    return not _SIDE_IMAGES.isdisjoint(suffix.split(".")[:-1])
