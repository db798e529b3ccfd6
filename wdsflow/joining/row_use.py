"""Which rows of a joined table the samples of a feed have, noted while they are listed."""

import threading
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wdsflow.shards.shard import Shard

from .row_index import RowIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Values that a message shows.
_EXAMPLES = 3


class RowUse:
    """Which rows samples have: of all samples that a rank lists, each shard once. Thread-safe.

    Attributes:
        samples: that have been listed.
        matched: those with a row.
        several: those whose value is in several rows.
        rows: a bit for each entry of the index: whether a sample has it.
        shared: likewise: whether several samples of this rank have it.
        values: to join on, of the first samples.
        examples: values of rows that are ambiguous.
    """

    def __init__(self, index: RowIndex) -> None:
        import numpy as np

        self.samples = self.matched = self.several = 0
        self.rows: NDArray[np.uint8] = np.zeros(-(-index.entries // 8), np.uint8)
        self.shared: NDArray[np.uint8] = np.zeros_like(self.rows)
        self.values: list[str] = []
        self.examples: list[str] = []
        self._index = index
        self._noted: dict[Shard, array[int]] = {}
        self._done: set[Shard] = set()
        self._lock = threading.Lock()

    def note(self, shard: Shard, value: str | None, row: int) -> None:
        """Note the value to join on, and the row, of the next sample of a shard."""
        if value is not None and len(self.values) < _EXAMPLES:
            self.values.append(value)
        self._noted.setdefault(shard, array("q")).append(row)

    def add(self, shard: Shard) -> None:
        """Add the samples of a shard, all of which have been noted."""
        self.add_rows(shard, self._noted.pop(shard, array("q")))

    def add_rows(self, shard: Shard, rows: "Sequence[int]") -> None:
        """Add the samples of a shard, by the row of each, negative without one."""
        with self._lock:
            # A shard that is named twice has the same samples.
            if shard not in self._done:
                self._done.add(shard)
                self._add(rows)

    def count_shared(self) -> int:
        """Return how many rows several samples have."""
        import numpy as np

        return int(np.unpackbits(self.shared).sum())

    def _add(self, noted: "Sequence[int]") -> None:
        import numpy as np

        self.samples += len(noted)
        all_rows = np.asarray(noted, np.int64)
        matched = all_rows[all_rows >= 0]
        self.matched += len(matched)
        rows, counts = np.unique(matched, return_counts=True)
        masks = np.left_shift(1, rows & 7).astype(np.uint8)
        is_shared = (counts > 1) | ((self.rows[rows >> 3] & masks) != 0)
        np.bitwise_or.at(self.rows, rows >> 3, masks)
        np.bitwise_or.at(self.shared, rows[is_shared] >> 3, masks[is_shared])
        several: list[int] = []
        if self._index.repeated:
            several = [row for row in matched.tolist() if self._index.has_several_rows(row)]
        self.several += len(several)
        for row in rows[is_shared].tolist() + several:
            if len(self.examples) == _EXAMPLES:
                break
            value = self._index.value(row)
            if value not in self.examples:
                self.examples.append(value)
