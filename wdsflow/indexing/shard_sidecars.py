"""The sidecars of one shard, as bytes."""

import json
import re
import struct
from collections.abc import Iterator

from .shard_pass import IndexedSample, ShardContents, ShardFacts

_BLANK = re.compile(r"[ \t\n\v\f\r]")


class CannotIndex(ValueError):
    """A shard that a kind of index cannot describe."""


def render(kind: str, name: str, facts: ShardFacts, contents: ShardContents) -> bytes:
    """Return the sidecar of a shard.

    Args:
        kind: one of those that have a file for each shard.
        name: of the shard, without folder.
        facts: of the shard.
        contents: of the shard.

    Raises:
        CannotIndex: its reader could not read it.
    """
    if kind == "img2dataset":
        return _stats(facts)
    if facts.obstacle:
        raise CannotIndex(facts.obstacle)
    if not contents.samples:
        raise CannotIndex("it has no samples, and such an index cannot be empty")
    if kind == "dali":
        return "".join(_dali(contents)).encode("utf-8", "surrogateescape")
    if kind == "energon":
        offsets = [*(sample.start for sample in contents.samples), contents.end]
        return struct.pack(f"<{len(offsets)}Q", *offsets)
    return _webshart(name, facts, contents)


def _dali(contents: ShardContents) -> Iterator[str]:
    """Yield the lines of the index of ``wds2idx``, version 1.2."""
    yield f"v1.2 {len(contents.samples)}\n"
    for sample in contents.samples:
        for member in sample.members:
            if _BLANK.search(member.name):
                raise CannotIndex(f"DALI's index cannot hold names with white space: {member.name}")
        parts = (f"{member.field} {member.data} {member.size} {member.name}" for member in sample.members)
        yield f"{' '.join(parts)}\n"


def _webshart(name: str, facts: ShardFacts, contents: ShardContents) -> bytes:
    """Return the index of hfutils and webshart, which takes "size" for its own "length" but refuses both together."""
    files: dict[str, dict[str, object]] = {}
    for sample in contents.samples:
        paired = _json_of(sample)
        for member in sample.members:
            about: dict[str, object] = {"offset": member.data, "size": member.size}
            if paired and member.field.lower() != "json":
                about |= paired
            files[member.name] = about
    head = json.dumps({"path": name, "filesize": facts.size})
    rows = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in files.items())
    return f'{head[:-1]}, "files": {{\n{rows}\n}}}}\n'.encode()


def _json_of(sample: IndexedSample) -> dict[str, object]:
    found = next((member for member in sample.members if member.field.lower() == "json"), None)
    return {} if found is None else {"json_path": found.name, "json_offset": found.data, "json_length": found.size}


def _stats(facts: ShardFacts) -> bytes:
    stats = {
        "count": facts.samples,
        "successes": facts.samples,
        "failed_to_download": 0,
        "failed_to_resize": 0,
        "duration": 1.0,  # img2dataset divides by it
        "start_time": facts.changed - 1.0,
        "end_time": facts.changed,
        "status_dict": {"success": facts.samples},
    }
    return json.dumps(stats, indent=4).encode()
