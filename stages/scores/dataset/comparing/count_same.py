"""From records to values, by what rows of the same key, or of a near one, mean for each other."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ...base import Value
from .cells import CELL, cells
from .compared_results import Census, ComparedResults
from .groups import PARTS, grouped, is_first, part_of, rows_at_once
from .kept import Distinct, kept
from .spill import Spill

Records = Iterable[tuple[int, int, bytes]]
_SHARES = 4  # of the memory: rows that came in, groups, results, and room


def later_of_same(records: Records, width: int, folder: Path, memory: int) -> Iterator[tuple[int, int, Value]]:
    """Yield True for each key that occurs at an earlier place."""
    share = memory // _SHARES
    with TemporaryDirectory(dir=folder, prefix="same-") as place:
        spill, census = _read(records, width, Path(place), share)
        results = ComparedResults(Path(place), census, share)
        for rows, groups, group in grouped(spill, share):
            results.add(rows["place"], rows["item"], ~is_first(rows, groups, group))
        yield from results.values(bool)


def number_of_same(records: Records, width: int, folder: Path, memory: int) -> Iterator[tuple[int, int, Value]]:
    """Yield for each key how often it occurs."""
    share = memory // _SHARES
    with TemporaryDirectory(dir=folder, prefix="same-") as place:
        spill, census = _read(records, width, Path(place), share)
        results = ComparedResults(Path(place), census, share)
        for rows, groups, group in grouped(spill, share):
            results.add(rows["place"], rows["item"], np.minimum(groups["count"][group], 0xFFFFFFFF))
        yield from results.values(int)


def near_kept(records: Records, distance: int, folder: Path, memory: int) -> Iterator[tuple[int, int, Value]]:
    """Yield True for each 64-bit hash that is not kept: one that is kept, at an earlier place, is within ``distance``."""
    share = memory // _SHARES
    with TemporaryDirectory(dir=folder, prefix="near-") as name:
        place = Path(name)
        spill, census = _read(records, 8, place, share)
        results = ComparedResults(place, census, share)
        bounds = census.bounds(rows_at_once(share))
        firsts = Spill(place, "firsts", CELL, len(bounds) + 1, share // 2)
        for rows, groups, group in grouped(spill, share // 2):
            first = is_first(rows, groups, group)
            firsts.add(rows[first], np.searchsorted(bounds, rows["place"][first], side="right"))
            again = rows[~first]  # equal to one that is kept, or that went for one that is kept
            results.add(again["place"], again["item"], np.ones(len(again), np.uint32))
        distinct = Distinct(place / "distinct")
        for part in range(firsts.parts):
            rows = firsts.take(part)
            distinct.add(rows[np.lexsort((rows["item"], rows["place"]))])
        if distinct.count:
            keep = np.frombuffer(kept(distinct, distance, place, share), np.uint8)
            for start, rows in distinct.chunks(rows_at_once(share)):
                results.add(rows["place"], rows["item"], 1 - keep[start : start + len(rows)])
        yield from results.values(bool)


def _read(records: Records, width: int, folder: Path, memory: int) -> tuple[Spill, Census]:
    spill, census = Spill(folder, "rows", CELL, PARTS, memory), Census()
    for rows in cells(records, width):
        census.see(rows["place"])
        spill.add(rows, part_of(rows))
    return spill, census
