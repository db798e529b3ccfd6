"""One sample of a tar, and which samples next to damage have lost a member."""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wdsflow.shards.tar.damaged_headers import HeaderGap

if TYPE_CHECKING:
    from wdsflow.shards.tar.plain_entries import Row


NO_END_MARK = "the end mark is missing"
NO_PADDING = "the file ends inside the padding of its last member"
CUT_AFTER_END = "the compressed stream is cut after the end mark"
_HARMLESS = re.compile(f"at byte [0-9,]+ (?:{NO_END_MARK}|{NO_PADDING}|{CUT_AFTER_END})")
_TROUBLE = {
    "tar.truncated-data": "the contents of a member are cut",
    "tar.truncated-header": "the file ends inside a header",
    "tar.bad-header": "a header is damaged",
    "tar.sparse": "a sparse member is not read",
    "tar.cut-stream": "the compressed stream is cut",
    "tar.damaged-stream": "the compressed stream is damaged",
    "tar.no-end-blocks": NO_END_MARK,
    "tar.no-padding": NO_PADDING,
}


def troubles(*, ended: bool) -> dict[str, str]:
    """Return the text of a fault that a walk over a tar found; ``ended``: the last member is before an end mark."""
    return _TROUBLE | ({"tar.cut-stream": CUT_AFTER_END} if ended else {})


def is_harmless(damage: str) -> bool:
    """Return whether nothing is lost by damage that ``damage_of`` found.

    >>> is_harmless("at byte 1,024 the end mark is missing"), is_harmless("at byte 0 a header is damaged")
    (True, False)
    """
    return _HARMLESS.match(damage) is not None


class TarSample:
    """Neighbouring members of one key, by webdataset's rule, as one range of the tar."""

    __slots__ = ("end", "fields", "key", "names", "number", "start", "trouble")

    def __init__(self, number: int, key: str, start: int) -> None:
        self.number, self.key, self.start, self.end = number, key, start, start
        self.fields: dict[str, Row] = {}  # lower case name -> member
        self.names: tuple[str, ...] | None = None  # of the fields, if earlier samples had the same
        self.trouble = ""  # a slug if the tar itself is at fault


_Fields = tuple[str, ...]


@dataclass
class NearDamage:
    """A part of a tar that cannot be read, and the samples before and after it."""

    gap: HeaderGap
    before: TarSample | None
    after: TarSample | None = None


def losers(damages: Sequence[NearDamage], known: AbstractSet[_Fields], least: int) -> set[int]:
    """Return the numbers of the samples that have lost a member, or may have.

    What damaged headers still tell comes first. Otherwise a sample is whole if others have the same fields in the same
    order, and none has these and more where the damage is.

    Args:
        damages: what cannot be read.
        known: the fields of all samples that are not next to damage.
        least: bytes of the smallest of them.
    """
    seen = known | {tuple(each.fields) for damage in damages for each in (damage.before, damage.after) if each}
    found: set[int] = set()
    for damage in damages:
        gap, sides = damage.gap, (damage.before, damage.after)
        lost = gap.hurts(*sides)
        shorter = [sample is not None and _is_shorter(sample, seen, at_end=sample is damage.before) for sample in sides]
        # One of the two must have lost what was in a part that is too small for a whole sample.
        either = lost == (None, None) and not any(shorter) and 0 < gap.size < least
        for sample, is_lost, less in zip(sides, lost, shorter, strict=True):
            if sample is not None:
                doubtful = is_lost is None and (less or tuple(sample.fields) not in known)
                found |= {sample.number} if is_lost or either or doubtful else set()
    return found


def _is_shorter(sample: TarSample, seen: AbstractSet[_Fields], *, at_end: bool) -> bool:
    """Return whether another sample has the same fields and more of them, at the end or at the start."""
    fields = tuple(sample.fields)
    longer = (each for each in seen if len(each) > len(fields))
    return any((each[: len(fields)] if at_end else each[-len(fields) :]) == fields for each in longer)
