"""Fields that may be captions or images under unknown names, and empty fields."""

from collections import Counter
from collections.abc import Sequence

from wdsflow.readers.wanted_fields import extension_of
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.naming import CAPTIONS, IMAGES, is_side_image
from wdsflow.shards.shard_names import IMAGE_FIELDS

from .base import is_option
from .folded_shapes import is_wild
from .shape_edits import CAPTION

# Fields of this kind hold more than a caption, or a class.
_LABELS = frozenset({"cls", "label", "class", "json", "jsn"})
# Pillow does not open these by itself.
_UNOPENED = frozenset({"heic", "heif", "jxl", "svg"})
_USUAL = (CAPTION, *IMAGE_FIELDS)


def other_names(shards: Sequence[ShardEvidence]) -> dict[str, str]:
    """Return the fields that may be a caption or an image, each with the usual name."""
    names: dict[str, str] = {}
    empty = empty_fields(shards)
    for shard in shards:
        for name in shard.fields:
            if name in names or name in _USUAL or name in empty:
                continue
            if is_wild(shard, name) or not is_option(name):
                continue
            usual = _usual_name(name)
            if usual:
                names[name] = usual
    return names


def empty_fields(shards: Sequence[ShardEvidence]) -> set[str]:
    """Return the fields whose members are all empty; none if only names were read."""
    sizes: Counter[str] = Counter()
    for shard in shards:
        for name, field in shard.fields.items():
            sizes[name] += field.bytes
    if not sizes.total():
        return set()
    return {name for name, size in sizes.items() if not size}


def _usual_name(name: str) -> str:
    """Return the name that readers know for a field of captions or images; "" if it is neither."""
    extension = extension_of(name)
    if extension in CAPTIONS and extension not in _LABELS:
        return CAPTION
    if extension in IMAGES and extension not in _UNOPENED and not is_side_image(name):
        return extension if extension in ("png", "jpeg", "webp") else "jpg"
    return ""
