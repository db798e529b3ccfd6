"""Contents that are no images and no captions: interleaved documents, audio, video."""

import re
from typing import NamedTuple

from wdsflow.media import HEAD, Read, format_title, is_cut, least_size, media_format, promised_format, tag_length

_IMAGE = "<image>"
_FILES = ("image", "images", "video", "videos", "audio", "audios")
_IN_OBJECT = ("path", "file_name", "image_name", "image")
_FILE = re.compile(r"[^\x00-\x1f]{1,250}\.[A-Za-z0-9]{2,5}")


class ImageOrder(NamedTuple):
    """What such a json says."""

    flavour: str  # "llava", "chat", "mmc4" or "obelics"
    images: int  # places for images
    files: tuple[str, ...]  # names of files that it lists, in lower case and without folders; urls are left out


def interleaved(value: dict[str, object]) -> ImageOrder | None:
    r"""Return what a json object says about images among texts; None for any other object.

    >>> interleaved({"image": "a.jpg", "conversations": [{"from": "human", "value": "<image>\nWhat is it?"}]})
    ImageOrder(flavour='llava', images=1, files=('a.jpg',))
    >>> interleaved({"images": ["a.jpg"], "caption": "two of <image>"}) is None
    True
    """
    if turns := _objects(value.get("conversations"), "from", "value"):
        return ImageOrder("llava", sum(_tokens(turn["value"]) for turn in turns), _listed(value))
    if turns := _objects(value.get("messages"), "role", "content"):
        return ImageOrder("chat", sum(_tokens(turn["content"]) for turn in turns), _listed(value))
    info, texts, images = _objects(value.get("image_info"), "image_name"), value.get("texts"), value.get("images")
    if info and isinstance(value.get("text_list"), list):
        return ImageOrder("mmc4", len(info), _names([each["image_name"] for each in info]))
    if isinstance(texts, list) and isinstance(images, list) and len(texts) == len(images) > 0:
        there = [image for text, image in zip(texts, images, strict=True) if (text is None) is not (image is None)]
        if len(there) == len(texts):
            shown = [image for image in there if image is not None]
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
    if not isinstance(content, list):
        return 0
    parts = [part for part in content if isinstance(part, dict)]
    shown = sum(part.get("type") in ("image", "image_url", "input_image") for part in parts)
    return shown + sum(_tokens(part.get("text")) for part in parts if isinstance(part.get("text"), str))


def _listed(value: dict[str, object]) -> tuple[str, ...]:
    found: list[object] = []
    for name in _FILES:
        item = value.get(name)
        found += item if isinstance(item, list) else [item]
    return _names(found)


def _names(items: list[object]) -> tuple[str, ...]:
    """Return the names of files among values, without folders and in lower case, each once."""
    names: dict[str, None] = {}
    for item in items:
        name = next((item[each] for each in _IN_OBJECT if each in item), None) if isinstance(item, dict) else item
        if isinstance(name, str) and "://" not in name and _FILE.fullmatch(name):
            names[re.split(r"[/\\]", name)[-1].lower()] = None
    return tuple(names)


_ANIMATED = frozenset((b"heic", b"heix", b"mif1", b"avif", b"avis"))  # pictures in the container of MP4

_SLOPPY = 12  # bytes: writers of WAV forget the padding, or count the 8 bytes of the chunk's own header


def media_notes(suffix: str, size: int, read: Read) -> tuple[tuple[str, ...], str]:
    """Return the names of the tallies that an audio or video member adds to, and what was found instead.

    Args:
        suffix: field name in lower case.
        size: of the member, in bytes.
        read: gives bytes of it by offset and number.
    """
    if not size:
        return ("media.empty",), ""
    head = read(0, min(size, HEAD))
    if not head:
        return (), ""  # the source cannot read it
    tagged = tag_length(head)
    if tagged >= size:
        return ("media.cut",), ""
    if tagged:
        head = read(tagged, min(size - tagged, HEAD))
        if not head:
            return (), ""  # the source cannot read so far inside
    found, promised = media_format(head), promised_format(suffix)
    if found == "mp4" and head[4:8] == b"ftyp" and head[8:12] in _ANIMATED:
        found = ""
    if not found:
        # A frame of MP3 may begin anywhere: a decoder searches for it.
        return ((), "") if tagged else (("media.not-media",), "")
    notes: tuple[str, ...] = ("media.wrong-format",) if found != promised else ()
    slack = _SLOPPY if found == "wav" else 0
    if least_size(head) > size - tagged + slack or (found == "mp4" and not tagged and is_cut(size, read)):
        notes += ("media.cut",)
    return notes, format_title(found)
