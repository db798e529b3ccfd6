"""Values by place, returned in the order of places."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .spill import Rows, Spill

if TYPE_CHECKING:
    from ...base import Scalar, Value

RESULT: np.dtype[Any] = np.dtype([("place", "<u8"), ("item", "<u4"), ("value", "<u4")])
_SHIFT = np.uint64(16)
_COST = 64  # bytes per row while it is sorted and returned


class Census:
    """How many rows there are in each stretch of 65,536 places: from it, parts that fit into memory are cut."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def see(self, places: NDArray[Any]) -> None:
        """Count rows."""
        blocks, counts = np.unique(places >> _SHIFT, return_counts=True)
        for block, count in zip(blocks.tolist(), counts.tolist(), strict=True):
            self._counts[block] += count

    def bounds(self, most: int) -> NDArray[np.uint64]:
        """Return where parts begin but the first, so that each has about ``most`` rows at most."""
        found, rows = [], 0
        for block in sorted(self._counts):
            if rows and rows + self._counts[block] > most:
                found.append(block << 16)
                rows = 0
            rows += self._counts[block]
        return np.array(found, np.uint64)


class ComparedResults:
    """Values of places, added in any order."""

    def __init__(self, folder: Path, census: Census, memory: int) -> None:
        self._bounds = census.bounds(max(1 << 8, memory // _COST))
        self._spill = Spill(folder, "results", RESULT, len(self._bounds) + 1, memory)

    def add(self, places: NDArray[Any], items: NDArray[Any], values: NDArray[Any]) -> None:
        """Add values."""
        rows = np.zeros(len(places), RESULT)
        rows["place"], rows["item"], rows["value"] = places, items, values
        self._spill.add(rows, np.searchsorted(self._bounds, places, side="right"))

    def values(self, convert: "Callable[[int], Scalar]") -> "Iterator[tuple[int, int, Value]]":
        """Yield (shard, sample, value) in order: a list where a place has several."""
        for part in range(self._spill.parts):
            rows = self._spill.take(part)
            if len(rows):
                yield from _in_order(rows, convert)


def _in_order(rows: Rows, convert: "Callable[[int], Scalar]") -> "Iterator[tuple[int, int, Value]]":
    rows = rows[np.lexsort((rows["item"], rows["place"]))]
    places = rows["place"]
    starts = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
    values = rows["value"].tolist()
    stops = [*starts[1:].tolist(), len(rows)]
    for place, start, stop in zip(places[starts].tolist(), starts.tolist(), stops, strict=True):
        value: Value = convert(values[start])
        if stop - start > 1:
            value = [convert(each) for each in values[start:stop]]
        yield place >> 32, place & 0xFFFFFFFF, value
