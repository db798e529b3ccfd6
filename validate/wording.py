"""The words for what becomes of samples: one place, so that report, rules and reasons say the same."""

from collections import Counter
from collections.abc import Mapping

from wdsflow.shards.escape import escape

from .evidence import Shape

LOSSES: dict[str, str] = {
    "no-image": "no image field",
    "no-caption": "no caption field",
    "no-image-or-caption": "neither an image nor a caption field",
    "empty-caption": "the caption is empty",
    "bad-caption": "the caption cannot be decoded",
    "bad-image": "the image cannot be decoded",
    "bad-field": "a field besides image and caption cannot be decoded, which drops the whole sample",
    "too-large": "the image has too many pixels",
    "duplicate-field": "a field name comes twice in one sample",
    "marked-bad": "the sample is marked __bad__",
}

CRASHES: dict[str, str] = {
    "unreadable-shard": "a shard cannot be read, and the reader raises",
    "truncated-shard": "a shard is cut inside a member, and the reader raises",
    "no-samples": "the shards hold no sample at all, and the reader raises",
    "schema": "a sample does not have the fields that the first samples had",
    "types": "the type of a value is not that of its column, which the first samples gave",
    "not-utf8-name": "a name is not UTF-8, so that it cannot become a column or a key of a table",
    "key-again": "a key comes back after other keys, and the reader raises",
    "unsafe-field": "a field that could run code, which the reader refuses with an exception",
    "spaced-key": "a space in --image-key or --text-key, which webdataset asserts is not there",
}


def loss_text(reason: str, detail: str, fields: str = "") -> str:
    """Say why samples are lost, in a few words."""
    text = LOSSES.get(reason, reason)
    if detail:
        text += f" ({escape(detail)})"
    if reason.startswith("no-") and fields:
        text += f"; they have {fields}"
    return text


def crash_text(reason: str, detail: str) -> str:
    """Say what ends the reader with an exception."""
    text = CRASHES.get(reason) or f"{LOSSES.get(reason, reason)}, and the reader raises"
    return f"{text} ({escape(detail)})" if detail else text


def fields_of(shapes: Mapping[Shape, int], most: int = 4) -> str:
    """List the field names of shapes, the most frequent first.

    >>> from .evidence import Part
    >>> fields_of({(Part("jpg", "ok"), Part("json", "ok")): 3, (Part("jpg", "ok"),): 1})
    'jpg, json'
    """
    counts: Counter[str] = Counter()
    for shape, count in shapes.items():
        for suffix in {part.suffix.lower() for part in shape}:
            counts[suffix] += count
    names = sorted(counts, key=lambda name: (-counts[name], name))
    shown = ", ".join(escape(name, 30) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
