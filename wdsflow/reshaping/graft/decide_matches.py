"""Which row each sample gets, now that the samples of all shards are known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .graft_table import Ambiguous, GraftTable
from .look_shard import SEVERAL, noted_file, numbers_in

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

AMBIGUOUS = -4  # in place of a row
_EXAMPLES = 3


@dataclass
class Matches:
    """What became of samples and rows. ``rows == used + unmatched_rows + ambiguous_rows + rows_without``.

    Attributes:
        matched: samples that have one row, or to which ``ambiguous`` gives one.
        by_rows: samples whose value several rows have.
        by_samples: samples whose value other samples have, too, and one row.
        examples: values of such rows.
        digests: by shard, a hash of the rows that its samples get; "" if it could not be read.
    """

    rows: int = 0
    rows_without: int = 0
    used: int = 0
    unmatched_rows: int = 0
    ambiguous_rows: int = 0
    matched: int = 0
    by_rows: int = 0
    by_samples: int = 0
    examples: list[str] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    listed: "NDArray[Any] | None" = None  # the rows that no sample has, in the order of the table


def decide(table: GraftTable, places: Sequence[Path | None], ambiguous: Ambiguous) -> Matches:
    """Decide for all shards, in their order, and write the rows of each next to what the first pass noted (``rows_file``).

    A byte of memory for each row of the table, and 8 for each that no sample has. With ``ambiguous`` "refuse" nothing
    is written if a sample is ambiguous.

    Args:
        table: the table.
        places: by shard, where the first pass noted its rows; None if the shard could not be read.
        ambiguous: what happens to samples with one value, and to samples whose value several rows have.
    """
    import numpy as np

    matches = Matches(table.rows, table.rows - table.valued)
    taken = np.zeros(table.rows, np.uint8)  # by how many samples; 2 for more
    repeated, firsts = table.repeats()
    for rows in _noted(places):
        found, count = np.unique(_plain(rows[rows >= 0]), return_counts=True)
        taken[found] = np.minimum(taken[found] + np.minimum(count, 2), 2)
    wanted: list[int] = []
    for rows in _noted(places):
        there = rows >= 0
        plain = _plain(rows)
        by_rows = there & (rows >= SEVERAL)
        by_samples = there & ~by_rows
        by_samples[by_samples] = taken[plain[by_samples]] > 1
        matches.by_rows, matches.by_samples = (
            matches.by_rows + int(by_rows.sum()),
            matches.by_samples + int(by_samples.sum()),
        )
        wanted += plain[by_rows | by_samples][:_EXAMPLES].tolist()
    matches.examples = _values(table, sorted(set(wanted))[:_EXAMPLES])
    if ambiguous == "refuse" and (matches.by_rows or matches.by_samples):
        return matches
    used = np.zeros(table.rows, np.bool_)
    for place in places:
        digest, matched = ("", 0) if place is None else _write(place, taken, used, ambiguous)
        matches.digests.append(digest)
        matches.matched += matched
    asked = taken > 0
    asked[repeated] = taken[firsts] > 0
    unmatched = ~asked & ~used
    unmatched[table.without()] = False
    matches.used, matches.unmatched_rows = int(used.sum()), int(unmatched.sum())
    matches.ambiguous_rows = table.valued - matches.used - matches.unmatched_rows
    matches.listed = np.flatnonzero(unmatched)
    return matches


def rows_file(place: Path) -> Path:
    """Return the file with the row of each sample of a shard."""
    return place.with_suffix(".rows")


def _write(place: Path, taken: "NDArray[np.uint8]", used: "NDArray[np.bool_]", ambiguous: Ambiguous) -> tuple[str, int]:
    import numpy as np
    from xxhash import xxh3_64_hexdigest

    noted = numbers_in(noted_file(place))
    there = noted >= 0
    rows = np.where(there, _plain(noted), noted)
    several = there & (noted >= SEVERAL)
    shared = there.copy()
    shared[there] = taken[rows[there]] > 1
    if ambiguous == "drop":
        rows[several | shared] = AMBIGUOUS
    elif ambiguous == "first":
        found, first = np.unique(rows[there], return_index=True)
        keeps = np.zeros(int(there.sum()), np.bool_)
        keeps[first] = ~used[found]
        kept = there.copy()
        kept[there] = keeps
        rows[there & ~kept] = AMBIGUOUS
    used[rows[rows >= 0]] = True
    rows.tofile(rows_file(place))
    return xxh3_64_hexdigest(rows.tobytes()), int((rows >= 0).sum())


def _noted(places: Sequence[Path | None]) -> "Iterator[NDArray[np.int64]]":
    return (numbers_in(noted_file(place)) for place in places if place is not None)


def _plain(rows: "NDArray[np.int64]") -> "NDArray[np.int64]":
    """Return the rows without the mark of those whose value several have."""
    import numpy as np

    plain: NDArray[np.int64] = np.where(rows >= SEVERAL, rows - SEVERAL, rows)
    return plain


def _values(table: GraftTable, rows: Sequence[int]) -> list[str]:
    import numpy as np

    found = table.values_of(np.array(rows, np.int64))
    return [str(row[0]).rpartition("\0")[2] for row in found if row is not None]
