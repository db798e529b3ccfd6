"""Scores of a run's page that are not numbers: a checkbox for each of their frequent values."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from wdsflow.expressions.score_call import Constant, ScoreCall, spelled
from wdsflow.filtering.predicates.values import NOT_COMPUTED, NotComputed, Unknown

from .edges import Codes, packed
from .row_results import RowValue

# A value of a sample; None is one that could not be computed.
Entry: TypeAlias = Constant | NotComputed | None

# Values with a box each, and characters of one.
_LISTED = 20
_LONGEST = 200
# Sets of values: codes have 16 bits.
_MOST_MASKS = 1 << 16
# Bits after those of the listed values.
_OTHER, _UNKNOWN, _PENDING = 1 << _LISTED, 1 << (_LISTED + 1), 1 << (_LISTED + 2)


@dataclass(frozen=True, slots=True)
class Choice:
    """One score of all rows that is not a number.

    It has the most frequent values, and which of them each row has.

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
        fits_byte = len(self.masks) <= 256
        return {
            "name": str(self.call),
            "literals": [spelled(value) for value, _ in self.values],
            "start": [value in self.ticked for value, _ in self.values],
            "masks": self.masks,
            "codes": packed(self.codes, np.uint8 if fits_byte else np.uint16),
            "bits": 8 if fits_byte else 16,
            "unknown": _UNKNOWN,
            "pending": _PENDING,
        }


def choice(
    values: Sequence[RowValue], call: ScoreCall, ticked: Sequence[Constant] = ()
) -> Choice | None:
    """Return the choice of a score by its values; None if no row has a value.

    It also lists the values of ``ticked``.
    """
    entries_of_rows = list(map(_entries, values))
    counts = _counts(entries_of_rows)
    frequent = [value for value, _ in counts.most_common() if _can_be_written(value)]
    if not frequent:
        return None
    allowed = tuple(dict.fromkeys(ticked))
    if len(allowed) > _LISTED or not all(map(_can_be_written, allowed)):
        allowed = ()
    others = [value for value in frequent if value not in allowed]
    chosen = (*allowed, *others[: _LISTED - len(allowed)])
    listed = [(value, counts[value]) for value in chosen]
    listed.sort(key=lambda entry: -entry[1])
    bits = {value: 1 << number for number, (value, _) in enumerate(listed)}
    # Set of values -> its code: few sets occur.
    masks: dict[int, int] = {}
    codes: list[int] = []
    for entries in entries_of_rows:
        mask = sum({_bit(entry, bits) for entry in entries})
        codes.append(masks.setdefault(mask, len(masks)))
    if len(masks) > _MOST_MASKS:
        return None
    return Choice(call, listed, list(masks), np.array(codes, np.int64), allowed)


def _counts(entries_of_rows: Iterable[Sequence[Entry]]) -> Counter[Constant]:
    """Return the number of samples that have each value.

    Samples with several values may count several times.
    """
    counts: Counter[Constant] = Counter()
    for entries in entries_of_rows:
        for value in set(entries):
            if isinstance(value, (bool, str)):
                counts[value] += 1
    return counts


def _can_be_written(value: Constant) -> bool:
    """Return whether a predicate can contain a value: a short text without control characters."""
    return len(_shown(value)) <= _LONGEST and _shown(value).isprintable()


def _bit(entry: Entry, bits: Mapping[Constant, int]) -> int:
    if entry is NOT_COMPUTED:
        return _PENDING
    if isinstance(entry, (bool, str)):
        return bits.get(entry, _OTHER)
    return _UNKNOWN


def _entries(value: RowValue) -> Sequence[Entry]:
    """Return the values of a sample; None is one that could not be computed."""
    if isinstance(value, list):
        return value or [None]
    return [None if isinstance(value, Unknown) else value]


def _shown(value: Constant) -> str:
    return str(value)
