"""One column of a pipeline's output: how often each of its values came out."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..values.marks import FLAT, PICTURE

# A column with fewer different values is rather a label: that it repeats shows nothing.
_LEAST_DISTINCT = 0.25


@dataclass(frozen=True)
class OutputColumn:
    """One column of the output."""

    name: str
    # By their marks.
    values: Counter[str] = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        """How many rows have the column."""
        return self.values.total()

    def is_mostly(self, kinds: tuple[str, ...]) -> bool:
        """Whether most of its values are of some kinds."""
        matching = sum(count for mark, count in self.values.items() if mark.startswith(kinds))
        return 2 * matching > self.rows

    @property
    def is_picture(self) -> bool:
        """Whether its values are pictures, and not all a dummy."""
        is_dummy = len(self.values) == 1 and next(iter(self.values)).startswith(FLAT)
        return self.is_mostly((PICTURE,)) and not is_dummy

    @property
    def is_varied(self) -> bool:
        """Whether it has many different values, as no column of labels has."""
        return len(self.values) > 1 and len(self.values) >= _LEAST_DISTINCT * self.rows

    def rows_in(self, field_counts: Mapping[str, int]) -> int:
        """Return how many rows have a value of a field.

        ``field_counts``: how often each value entered.
        """
        return sum(count for mark, count in self.values.items() if mark in field_counts)

    def rows_beyond(self, field_counts: Mapping[str, int]) -> int:
        """Return how many rows repeat the values of a field more often than these entered."""
        beyond = 0
        for mark, count in self.values.items():
            if mark in field_counts:
                beyond += max(0, count - field_counts[mark])
        return beyond


def sorted_counts(counts: Mapping[str, int] | Mapping[tuple[str, ...], int]) -> list[int]:
    """Return how often values come, the most frequent first."""
    return sorted(counts.values(), reverse=True)
