"""Numbers in names: the natural order, missing numbers, and ranges."""

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

# Missing names that are listed.
SHOWN = 20

_DIGITS = re.compile(r"([0-9]+)")
# Python refuses to convert more than 4,300 digits.
_MOST_DIGITS = 1000
# Longer numbers are identifiers.
_MOST_SERIES_DIGITS = 18


class MissingNames(NamedTuple):
    """Names of a series that no file has."""

    # The first few.
    names: list[str]
    total: int


def natural_order(name: str) -> tuple[list[str | int], str]:
    """Return a sort key by which numbers count as numbers.

    >>> sorted(["10.tar", "9.tar", "b.tar", "009.tar"], key=natural_order)
    ['009.tar', '9.tar', '10.tar', 'b.tar']
    """
    parts: list[str | int] = list(_DIGITS.split(name))
    # Numbers are at odd positions.
    parts[1::2] = [_number(digits) for digits in _DIGITS.findall(name)]
    return parts, name


def split_at_numbers(name: str) -> list[str]:
    """Return the texts of a name at even positions, and the numbers between them at odd ones.

    >>> split_at_numbers("s-01.tar")
    ['s-', '01', '.tar']
    """
    return _DIGITS.split(name)


def changing_position(names: Sequence[Sequence[str]]) -> int | None:
    """Return the position of the only number in which split names differ.

    None if they differ in several numbers, or in none.
    """
    numbers = range(1, len(names[0]), 2)
    changing = [at for at in numbers if len({parts[at] for parts in names}) > 1]
    return changing[0] if len(changing) == 1 else None


def is_next(number: str, other: str) -> bool:
    """Return whether a number follows another one in a range of braces.

    >>> is_next("09", "10"), is_next("9", "10"), is_next("9", "010")
    (True, True, False)
    """
    # As bash counts: {9..11} has no zeros in front.
    width = len(number) if number.startswith("0") else 0
    return other == f"{int(number) + 1:0{width}d}"


def missing_numbers(names: Sequence[str]) -> list[MissingNames]:
    """Find numbers that are missing in the middle of each series of names.

    A series is recognized by one number that changes while the rest stays the same. If more than
    half as many numbers are missing as exist, they are not a series but identifiers.

    >>> missing_numbers(["s-000.tar", "s-001.tar", "s-003.tar", "t-7.tar"])
    [MissingNames(names=['s-002.tar'], total=1)]
    """
    series: defaultdict[tuple[str, ...], list[list[str]]] = defaultdict(list)
    for name in names:
        folder, base = os.path.split(name)
        parts = _DIGITS.split(base)
        # Numbers in the name of the folder do not count.
        parts[0] = os.path.join(folder, parts[0])
        series[tuple(parts[::2])].append(parts)
    results = map(_missing_in_series, series.values())
    return [missing for missing in results if missing is not None]


def _number(digits: str) -> int:
    return int(digits) if len(digits) < _MOST_DIGITS else 0


def _missing_in_series(names: list[list[str]]) -> MissingNames | None:
    """Return the missing names of one series, whose names are split at their numbers."""
    at = changing_position(names)
    if at is None:
        return None
    digits = [parts[at] for parts in names]
    lengths = {len(number) for number in digits}
    if max(lengths) > _MOST_SERIES_DIGITS:
        return None
    present = sorted({int(number) for number in digits})
    count = present[-1] - present[0] + 1 - len(present)
    if not 0 < 2 * count <= len(present):
        return None
    before = "".join(names[0][:at])
    after = "".join(names[0][at + 1 :])
    width = len(digits[0]) if len(lengths) == 1 else 0
    first = [f"{before}{number:0{width}d}{after}" for number in islice(_gaps(present), SHOWN)]
    return MissingNames(first, count)


def _gaps(numbers: Sequence[int]) -> Iterator[int]:
    for number, following in pairwise(numbers):
        yield from range(number + 1, following)
