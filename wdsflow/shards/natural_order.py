"""Numbers in file names: natural order, and which of a series are missing."""

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

SHOWN = 20  # missing names that are spelled out

_DIGITS = re.compile(r"([0-9]+)")


class Missing(NamedTuple):
    """Names of a series that no file has."""

    names: list[str]  # the first few
    total: int


def natural(name: str) -> tuple[list[str | int], str]:
    """Return a sort key by which numbers count as numbers.

    >>> sorted(["10.tar", "9.tar", "b.tar", "009.tar"], key=natural)
    ['009.tar', '9.tar', '10.tar', 'b.tar']
    """
    parts: list[str | int] = list(_DIGITS.split(name))
    parts[1::2] = [int(digits) if len(digits) < 1000 else 0 for digits in _DIGITS.findall(name)]
    return parts, name


def missing_numbers(names: Sequence[str]) -> list[Missing]:
    """Find numbers that are missing in the middle of each series of names.

    A series is recognized by one number that changes while all else stays the same. Where more than half as many numbers
    are missing as are there, they are no series but identifiers.

    >>> missing_numbers(["s-000.tar", "s-001.tar", "s-003.tar", "t-7.tar"])
    [Missing(names=['s-002.tar'], total=1)]
    """
    series: defaultdict[tuple[str, ...], list[list[str]]] = defaultdict(list)
    for name in names:
        folder, base = os.path.split(name)
        parts = _DIGITS.split(base)
        parts[0] = os.path.join(folder, parts[0])
        series[tuple(parts[::2])].append(parts)
    return [found for parts in series.values() if (found := _missing(parts)) is not None]


def _missing(names: list[list[str]]) -> Missing | None:
    changing = [at for at in range(1, len(names[0]), 2) if len({parts[at] for parts in names}) > 1]
    if len(changing) != 1:
        return None
    at = changing[0]
    digits = [parts[at] for parts in names]
    if max(map(len, digits)) > 18:
        return None
    present = sorted({int(number) for number in digits})
    count = present[-1] - present[0] + 1 - len(present)
    if not 0 < 2 * count <= len(present):
        return None
    width = len(digits[0]) if len(set(map(len, digits))) == 1 else 0
    first = islice(_holes(present), SHOWN)
    before, after = "".join(names[0][:at]), "".join(names[0][at + 1 :])
    return Missing([f"{before}{number:0{width}d}{after}" for number in first], count)


def _holes(present: list[int]) -> Iterator[int]:
    for one, other in pairwise(present):
        yield from range(one + 1, other)
