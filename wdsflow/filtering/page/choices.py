"""Scores of a run's page that are not numbers: a checkbox for each of their frequent values."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wdsflow.expressions.score_call import Constant, ScoreCall, spelled
from wdsflow.filtering.predicates.values import NOT_COMPUTED, NotComputed, Unknown

from .edges import Codes, packed
from .row_results import RowValue

# Values with a box each, and characters of one.
_LISTED = 20
_LONGEST = 200
_OTHER, _UNKNOWN, _PENDING = 1 << _LISTED, 1 << (_LISTED + 1), 1 << (_LISTED + 2)


@dataclass(frozen=True, slots=True)
class Choice:
    """One score of all rows that is not a number: its most frequent values, and which of them each row has.

    ``masks`` are sets of values as bits; ``codes`` gives the mask of each row; ``ticked`` are the
    values that the run's own predicate allows, none if it allows all.
    """

    call: ScoreCall
    # With the number of samples.
    values: list[tuple[Constant, int]]
    masks: list[int]
    codes: Codes
    ticked: tuple[Constant, ...] = ()

    @property
    def shown(self) -> list[tuple[str, int]]:
        """The values as texts, with their numbers of samples."""
        return [(_shown(value), count) for value, count in self.values]

    def for_script(self) -> dict[str, object]:
        """Return the data for ``studio.js``."""
        return {
            "name": str(self.call),
            "literals": [spelled(value) for value, _ in self.values],
            "start": [value in self.ticked for value, _ in self.values],
            "masks": self.masks,
            "codes": packed(self.codes, np.uint16 if len(self.masks) > 256 else np.uint8),
            "bits": 16 if len(self.masks) > 256 else 8,
            "unknown": _UNKNOWN,
            "pending": _PENDING,
        }


def choice(
    values: Sequence[RowValue], call: ScoreCall, ticked: Sequence[Constant] = ()
) -> Choice | None:
    """Return the choice of a score by its values; it lists those of ``ticked`` too. None if no row has a value."""
    entries_of_rows = list(map(_entries, values))
    counts: Counter[Constant] = Counter(
        value
        for entries in entries_of_rows
        for value in set(entries)
        if isinstance(value, (bool, str))
    )
    frequent = [value for value, _ in counts.most_common() if _can_be_written(value)]
    if not frequent:
        return None
    allowed = tuple(dict.fromkeys(ticked))
    if len(allowed) > _LISTED or not all(map(_can_be_written, allowed)):
        allowed = ()
    others = [value for value in frequent if value not in allowed][: _LISTED - len(allowed)]
    listed = [(value, counts[value]) for value in (*allowed, *others)]
    listed.sort(key=lambda entry: -entry[1])
    bits = {value: 1 << number for number, (value, _) in enumerate(listed)}
    masks: dict[int, int] = {}
    codes = [
        masks.setdefault(sum({_bit(entry, bits) for entry in entries}), len(masks))
        for entries in entries_of_rows
    ]
    if len(masks) > 1 << 16:
        return None
    return Choice(call, listed, list(masks), np.array(codes, np.int64), allowed)


def _can_be_written(value: Constant) -> bool:
    """Return whether a predicate can contain a value: a short text without control characters."""
    return len(_shown(value)) <= _LONGEST and _shown(value).isprintable()


def _bit(entry: Constant | NotComputed | None, bits: Mapping[Constant, int]) -> int:
    if entry is NOT_COMPUTED:
        return _PENDING
    return bits.get(entry, _OTHER) if isinstance(entry, (bool, str)) else _UNKNOWN


def _entries(value: RowValue) -> Sequence[Constant | NotComputed | None]:
    """Return the values of a sample; None is one that could not be computed."""
    if isinstance(value, list):
        return value or [None]
    return [None if isinstance(value, Unknown) else value]


def _shown(value: Constant) -> str:
    return str(value)
