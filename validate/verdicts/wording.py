"""Texts for the fates of samples, shared by report, rules and reasons."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.shapes import Shape
from wdsflow.text.shell import escape

LOSSES: dict[str, str] = {
    "no-image": "no image field",
    "no-caption": "no caption field",
    "no-image-or-caption": "neither an image nor a caption field",
    "no-label": "no cls field",
    "no-image-or-label": "neither an image nor a cls field",
    "empty-caption": "the caption is empty",
    "bad-caption": "the caption cannot be decoded",
    "not-text": "the caption is not UTF-8",
    "bad-json": "the json that should hold the caption cannot be parsed",
    "bad-label": "the label is not an integer",
    "bad-image": "the image cannot be decoded",
    "bad-field": "a field other than image and caption cannot be decoded, which drops the whole sample",
    "too-large": "the image has too many pixels",
    "duplicate-field": "a field name occurs twice in one sample",
    "marked-bad": "the sample is marked __bad__",
}

CRASHES: dict[str, str] = {
    "unreadable-shard": "a shard cannot be read, and the reader raises an error",
    "truncated-shard": "a shard is cut inside a member, and the reader raises an error",
    "no-samples": "the shards hold no sample at all, and the reader raises an error",
    "no-index": "`wdsflow index URL... --energon` cannot index the shards, and without an index the reader raises an error",
    "reserved-field": "a field has a name that the reader keeps for itself, and it raises an error",
    "gives-up": "none of the samples can be used, and the reader raises an error after it skipped too many in a row",
    "schema": "a sample does not have the fields that the first samples had",
    "types": "the type of a value is not that of its column, which the first samples gave",
    "table": "a value that Arrow does not write to a table with the types of the first samples",
    "not-utf8-name": "a name is not UTF-8, and the reader raises an error",
    "key-again": "a key comes back after other keys, and the reader raises an error",
    "unsafe-field": "a field that could run code, which the reader refuses with an exception",
    "spaced-key": "a space in --image-key or --text-key, which webdataset refuses",
}

# Of one sample, of several.
LACKS: dict[str, tuple[str, str]] = {
    "no-image": ("lacks an image", "lack an image"),
    "no-caption": ("lacks a caption", "lack a caption"),
    "no-image-or-caption": ("lacks both image and caption", "lack both image and caption"),
    "no-label": ("lacks a cls label", "lack a cls label"),
    "no-image-or-label": ("lacks both image and cls label", "lack both image and cls label"),
    "empty-caption": ("has an empty caption", "have an empty caption"),
    "bad-caption": (
        "has a caption that cannot be decoded",
        "have a caption that cannot be decoded",
    ),
    "not-text": ("has a caption that is not UTF-8", "have a caption that is not UTF-8"),
    "bad-json": ("has json that cannot be parsed", "have json that cannot be parsed"),
    "bad-label": ("has a label that is not an integer", "have labels that are not integers"),
    "bad-image": ("has an image that cannot be decoded", "have an image that cannot be decoded"),
    "bad-field": (
        "has another field that cannot be decoded",
        "have another field that cannot be decoded",
    ),
    "too-large": ("has an image with too many pixels", "have an image with too many pixels"),
    "duplicate-field": ("has a field twice", "have a field twice"),
    "marked-bad": ("is marked __bad__", "are marked __bad__"),
    "unopened": ("is in a shard that is not read", "are in shards that are not read"),
    "joined": ("is not found as a sample of its own", "are not found as samples of their own"),
    "unreached": (
        "is after damage at which readers stop",
        "are after damage at which readers stop",
    ),
}

UNREADABLE: dict[str, str] = {
    "missing": "no such file",
    "denied": "no permission to read it",
    "empty": "the file is empty",
    "worker-died": "reading it killed the process twice",
}
# Empty shards that are listed.
_NAMED = 3
# Field names that are listed.
_FIELDS = 4


def short_title(title: str) -> str:
    """Return the title of a reader without what is in brackets.

    >>> short_title("OpenCLIP 3.3.0 (webdataset 0.2.86)")
    'OpenCLIP 3.3.0'
    """
    return title.partition(" (")[0]


def short_loss_text(reason: str, count: int) -> str:
    """Return a short text for a reason, such as a missing field; "" if there is none.

    >>> short_loss_text("no-caption", 11)
    '11 lack a caption'
    """
    words = LACKS.get(reason)
    return f"{count:,} {words[count != 1]}" if words else ""


def holds_nothing(shards: Sequence[ShardEvidence]) -> bool:
    """Return whether all readable shards were read to the end, and none has a sample.

    There is nothing to judge then.
    """
    read = [shard for shard in shards if shard.error is None]
    return bool(read) and not any(
        shard.has_samples or shard.stop.kind not in ("end", "eof") for shard in read
    )


def no_verdict_text(shards: Sequence[ShardEvidence]) -> str:
    """Return in one line why there is no verdict on shards; "" if there is one."""
    if all(shard.error is not None for shard in shards):
        return unreadable_text(shards)
    if not holds_nothing(shards):
        return ""
    names = []
    for shard in shards[:_NAMED]:
        reason = _why(shard) if shard.error else "none in it"
        names.append(f"{_where(shard)} ({reason})")
    more = f" and {len(shards) - _NAMED:,} more" if len(shards) > _NAMED else ""
    return f"the shards hold no samples; write or download them again: {', '.join(names)}{more}"


def _where(shard: ShardEvidence) -> str:
    path = shard.url.path
    return escape(shard.url if path is None else os.path.abspath(path), 1_000)


def _why(shard: ShardEvidence) -> str:
    detail = escape(shard.error_detail or shard.error or "", 300)
    # The server's reason is more exact: credentials may be missing.
    if shard.error == "denied" and shard.url.path is None:
        return detail
    return UNREADABLE.get(shard.error or "") or detail


def why_unread(shard: ShardEvidence) -> str:
    """Return in one line which shard cannot be read, and why."""
    return f"{_where(shard)}: {_why(shard)}"


def unreadable_text(shards: Sequence[ShardEvidence]) -> str:
    """Return one line on shards of which none could be read.

    It has the first shard, the reason, and a command that helps.
    """
    if not shards:
        return "nothing could be read: no shards given"
    first = shards[0]
    names = _where(first)
    more = len(shards) - 1
    if more:
        names += f" and {more:,} more shard{'s' if more > 1 else ''}"
    text = f"nothing could be read: {names}: {_why(first)}"
    return f"{text}: {first.error_fix}" if first.error_fix else text


def loss_text(reason: str, detail: str, fields: str = "") -> str:
    """Return why samples are lost, in a few words."""
    if reason == "no-caption" and detail:
        # The field is there, and has no caption.
        return f"no caption in {escape(detail)}"
    text = LOSSES.get(reason, reason)
    if detail:
        text += f" ({escape(detail)})"
    if reason.startswith("no-") and fields:
        text += f"; they have {fields}"
    return text


def crash_text(reason: str, detail: str) -> str:
    """Return why the reader raises an exception."""
    text = CRASHES.get(reason) or f"{LOSSES.get(reason, reason)}, and the reader raises an error"
    return f"{text} ({escape(detail)})" if detail else text


def fields_of(shapes: Mapping[Shape, int]) -> str:
    """List the field names of shapes, the most frequent first.

    >>> from wdsflow.scan.shapes import Part
    >>> fields_of({(Part("jpg", "ok"), Part("json", "ok")): 3, (Part("jpg", "ok"),): 1})
    'jpg, json'
    """
    counts: Counter[str] = Counter()
    for shape, count in shapes.items():
        for suffix in {part.suffix.lower() for part in shape}:
            counts[suffix] += count
    names = sorted(counts, key=lambda name: (-counts[name], name))
    shown = ", ".join(escape(name, 30) for name in names[:_FIELDS])
    if len(names) > _FIELDS:
        shown += f" and {len(names) - _FIELDS} more"
    return shown
