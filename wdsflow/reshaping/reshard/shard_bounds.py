"""Which rows of a part go into which output."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsflow.shards.tar.tar_header import BLOCK
from wdsflow.text.words import how_many

from .reshard_options import ReshardOptions
from .sample_rows import END, KEY, PIECE, PLACE, START, RowFile, Rows

_TAIL = 2 * BLOCK  # the end mark
_LONGER = 3 * BLOCK  # by which the headers of a member may grow with another name
_FIELDS = np.uint64(0xFFFF)
_MOST_SHARDS = 10_000_000


class Bounds(NamedTuple):
    """An output: its rows, from ``start`` up to ``end``."""

    start: int
    end: int


def bounds_of(rows: RowFile, options: ReshardOptions, inputs: float, part: str = "") -> list[Bounds]:
    """Return the outputs of a part, in order; every row is in one of them.

    Args:
        rows: of the part.
        options: how large shards are.
        inputs: how many inputs held as many samples: without a wish there are as many outputs.
        part: its name, for messages.

    Raises:
        ValueError: there are fewer samples than shards.
    """
    if not rows.count:
        return []
    if options.size is not None:
        return list(_by_size(rows, options.size))
    count = _count(rows.count, options, inputs)
    if count > rows.count:
        wanted = f"--shards {options.shards}" if options.shards else f"--divisible-by {options.divisible_by}"
        of = f" of {part}" if part else ""
        raise ValueError(f"{wanted}: {how_many(count, 'shard')} cannot be made of {how_many(rows.count, 'sample')}{of}")
    if count > _MOST_SHARDS:
        raise ValueError(f"these would be {count:,} shards: at most {_MOST_SHARDS:,}")
    edges = [number * rows.count // count for number in range(count + 1)]
    return [Bounds(start, end) for start, end in pairwise(edges)]


def _count(samples: int, options: ReshardOptions, inputs: float) -> int:
    if options.shards is not None:
        return options.shards
    least = -(-samples // options.samples) if options.samples is not None else max(1, round(inputs))
    if options.divisible_by is None:
        return min(least, samples)
    whole = options.divisible_by.readers
    return -(-least // whole) * whole


def _by_size(rows: RowFile, most: int) -> Iterator[Bounds]:
    """Fill shards up to ``most`` bytes; a sample that is larger is alone."""
    start, before = 0, -1
    window, base = rows.read(0, PIECE), 0
    room = np.uint64(max(0, most - _TAIL))
    while start < rows.count:
        here = window[start - base :]
        sizes = here[:, END] - here[:, START]
        count = int(np.searchsorted(np.cumsum(sizes, dtype=np.uint64), room, side="right"))
        if count >= len(here) and base + len(window) < rows.count:  # the window ends first
            window, base = rows.read(start, start + 2 * max(len(here), PIECE)), start
            continue
        grown = np.cumsum(sizes[:count] + _growth(here[:count], before), dtype=np.uint64)
        count = max(1, int(np.searchsorted(grown, room, side="right")))
        before = int(here[count - 1, KEY])
        yield Bounds(start, start + count)
        start += count


def _growth(rows: Rows, before: int) -> NDArray[np.uint64]:
    """Return by how many bytes each sample may grow: those get another name whose key is there already."""
    again = np.ones(len(rows), bool)
    again[np.unique(rows[:, KEY], return_index=True)[1]] = False
    if len(rows) and int(rows[0, KEY]) == before:
        again[0] = True
    grown: NDArray[np.uint64] = again * (rows[:, PLACE] & _FIELDS) * np.uint64(_LONGER)
    return grown
