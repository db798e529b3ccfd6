"""Damage of a tar in words, and whether samples are lost by it."""

import re

from wdsflow.shards.tar.walk import Occurrences, Walk

NO_END_MARK = "the end mark is missing"
NO_PADDING = "the file ends inside the padding of its last member"
CUT_AFTER_END = "the compressed stream is cut after the end mark"

# Damage by which members are lost, in words, by the name under which the walk counts it.
LOST_MEMBERS = {
    "tar.truncated-data": "the contents of a member are cut",
    "tar.truncated-header": "the file ends inside a header",
    "tar.bad-header": "a header is damaged",
    "tar.sparse": "a sparse member is not read",
}

_DAMAGED_STREAM = "tar.damaged-stream"
# All damage, in the same way.
_TEXTS = {
    **LOST_MEMBERS,
    "tar.cut-stream": "the compressed stream is cut",
    _DAMAGED_STREAM: "the compressed stream is damaged",
    "tar.no-end-blocks": NO_END_MARK,
    "tar.no-padding": NO_PADDING,
}
_HARMLESS = re.compile(f"at byte [0-9,]+ (?:{NO_END_MARK}|{NO_PADDING}|{CUT_AFTER_END})")


def damage_of(walk: Walk) -> list[str]:
    """Return a sentence for each kind of damage in a tar, after the walk over it has ended."""
    damage = []
    for name, text in _TEXTS.items():
        seen = walk.seen.get(name)
        if seen is None:
            continue
        if name == _DAMAGED_STREAM:
            damage.append(seen.detail)
        elif name == "tar.cut-stream" and walk.ended:
            damage.append(_sentence(seen, CUT_AFTER_END))
        else:
            damage.append(_sentence(seen, text))
    if walk.zeros.count:
        damage.append(_sentence(walk.zeros, walk.zeros.detail))
    if walk.stop is not None and walk.stop.kind in {"unreadable", "error"} and not damage:
        damage.append(f"at byte {walk.stop.offset:,}: {walk.stop.detail}")
    return damage


def is_harmless(damage: str) -> bool:
    """Return whether nothing is lost by damage that ``damage_of`` returned.

    >>> is_harmless("at byte 1,024 the end mark is missing"), is_harmless("at byte 0 a header is damaged")
    (True, False)
    """
    return _HARMLESS.match(damage) is not None


def _sentence(seen: Occurrences, text: str) -> str:
    member = f": {seen.name}" if seen.name else ""
    more = f", and {seen.count - 1:,} more such places" if seen.count > 1 else ""
    return f"at byte {seen.offset:,} {text}{member}{more}"
