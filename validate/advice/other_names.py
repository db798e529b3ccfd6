"""Fields that may hold captions or images under other names than the usual ones."""

from collections import Counter
from collections.abc import Sequence

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.naming import CAPTIONS, IMAGES

from ..rules.kit.rule_commands import is_option
from ..rules.kit.unusual_names import is_wild

_LABELS = frozenset({"cls", "label", "class", "json", "jsn"})  # not captions as they are
_OTHER_FORMATS = frozenset({"gif", "bmp", "tif", "tiff", "heic", "heif", "avif", "jp2", "jxl", "ppm", "svg"})
_USUAL = ("txt", "jpg", "png", "jpeg", "webp")


def other_names(shards: Sequence[ShardEvidence]) -> dict[str, str]:
    """Return the fields that may be a caption or an image under another name, each with the usual name."""
    found: dict[str, str] = {}
    hollow = empty_fields(shards)
    for shard in shards:
        for name in shard.fields:
            last = name.removesuffix(".gz").rpartition(".")[2]
            if name in found or name in _USUAL or name in hollow or is_wild(shard, name) or not is_option(name):
                continue
            if last in CAPTIONS and last not in _LABELS:
                found[name] = "txt"
            elif last in IMAGES and last not in _OTHER_FORMATS:
                found[name] = last if last in ("png", "jpeg", "webp") else "jpg"
    return found


def empty_fields(shards: Sequence[ShardEvidence]) -> set[str]:
    """Return the fields whose members are all empty; none if only names were read."""
    sizes: Counter[str] = Counter()
    for shard in shards:
        for name, found in shard.fields.items():
            sizes[name] += found.bytes
    return {name for name, size in sizes.items() if not size} if sizes.total() else set()
