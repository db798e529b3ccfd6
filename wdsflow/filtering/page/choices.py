"""Truth values and texts of a run's page: boxes to tick, and what each sample has."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wdsflow.filtering.ledger.ledger_row import Row
from wdsflow.filtering.where.language.values import PENDING, Call, Scalar, Unknown, spelled

from .score_codes import packed

_LISTED = 20  # values with a box each
_LONGEST = 200  # characters of one
_OTHER, _UNKNOWN, _PENDING = 1 << _LISTED, 1 << (_LISTED + 1), 1 << (_LISTED + 2)


@dataclass(frozen=True, slots=True)
class Choice:
    """One score of all rows that is no number: its most frequent values, and which of them each row has.

    ``masks`` are sets of values as bits; ``codes`` gives the mask of each row; ``ticked`` are the values that the
    run's own predicate allows, none if it allows all.
    """

    call: Call
    values: list[tuple[Any, int]]  # with the number of samples
    masks: list[int]
    codes: Any
    ticked: tuple[Scalar, ...] = ()

    @property
    def shown(self) -> list[tuple[str, int]]:
        """The values as texts, with their numbers of samples."""
        return [(_shown(value), count) for value, count in self.values]

    def for_script(self) -> dict[str, Any]:
        """Return what ``studio.js`` needs."""
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


def choice(rows: Sequence[Row], call: Call, ticked: Sequence[Scalar] = ()) -> Choice | None:
    """Return the choice of a score, which lists the values ``ticked`` too; None if no row has a value."""
    values = [_entries(row.values.get(call, PENDING)) for row in rows]
    counts: Counter[Scalar] = Counter(
        value for entries in values for value in set(entries) if isinstance(value, (bool, str))
    )
    frequent = [value for value, _ in counts.most_common() if _can_be_written(value)]
    if not frequent:
        return None
    wanted = tuple(dict.fromkeys(ticked)) if all(map(_can_be_written, ticked)) else ()
    wanted = wanted if len(wanted) <= _LISTED else ()
    others = [value for value in frequent if value not in wanted][: _LISTED - len(wanted)]
    listed = sorted(((value, counts[value]) for value in (*wanted, *others)), key=lambda each: -each[1])
    bits = {value: 1 << number for number, (value, _) in enumerate(listed)}
    masks: dict[int, int] = {}
    codes = [masks.setdefault(sum({_bit(entry, bits) for entry in entries}), len(masks)) for entries in values]
    if len(masks) > 1 << 16:
        return None
    return Choice(call, listed, list(masks), np.array(codes, np.int64), wanted)


def _can_be_written(value: Any) -> bool:
    """Return whether a predicate can name a value: a short text without control characters."""
    return len(_shown(value)) <= _LONGEST and _shown(value).isprintable()


def _bit(entry: Any, bits: dict[Any, int]) -> int:
    if entry is PENDING:
        return _PENDING
    return bits.get(entry, _OTHER) if isinstance(entry, (bool, str)) else _UNKNOWN


def _entries(value: Any) -> list[Any]:
    """Return the values of a sample; None is one that could not be computed."""
    if isinstance(value, list):
        return value or [None]
    return [None if isinstance(value, Unknown) else value]


def choices(rows: Sequence[Row], calls: Sequence[Call], ticked: Mapping[Call, Sequence[Scalar]]) -> Iterator[Choice]:
    """Yield the choices of some scores. ``ticked``: the values that the run's own predicate allows."""
    for call in calls:
        if (found := choice(rows, call, ticked.get(call, ()))) is not None:
            yield found


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
