"""Which rows of a joined table samples have, noted while they are listed."""

import threading
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wdsflow.shards.shard import Shard

from .index.row_index import WITHHELD, RowIndex
from .withheld_rows import FirstSamples, withheld_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .join_options import Ambiguous

# Values that a message shows.
_EXAMPLES = 3


class RowUse:
    """Which rows samples have: of all samples that a rank lists, each shard once. Thread-safe.

    ``keeps_rows``: the row of each sample is kept, in 8 bytes, until it is known which are shared.

    Attributes:
        samples: that have been listed.
        matched: those with a row.
        withheld: those that do not get their row.
        with_several_rows: those whose value is in several rows.
        used_rows: a bit for each entry of the index: whether a sample has it.
        shared_rows: likewise: whether several samples of this rank have it.
        values: to join on, of the first samples.
        examples: values of rows that are ambiguous.
    """

    def __init__(self, index: RowIndex, *, keeps_rows: bool = False) -> None:
        import numpy as np

        self.samples = self.matched = self.withheld = self.with_several_rows = 0
        self.rows_by_shard: dict[Shard, NDArray[np.int64]] | None = {} if keeps_rows else None
        self.used_rows: NDArray[np.uint8] = np.zeros(-(-index.entries // 8), np.uint8)
        self.shared_rows: NDArray[np.uint8] = np.zeros_like(self.used_rows)
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
                self._add(shard, rows)

    def count_shared(self) -> int:
        """Return how many rows several samples have."""
        import numpy as np

        return int(np.unpackbits(self.shared_rows).sum())

    def rows_by_number(self, shards: Sequence[Shard]) -> "dict[int, NDArray[np.int64]]":
        """Return the kept rows of each shard's samples, by the number of the shard among all."""
        assert self.rows_by_shard is not None
        numbers: dict[Shard, int] = {}
        for number, shard in enumerate(shards):
            numbers.setdefault(shard, number)
        return {numbers[shard]: rows for shard, rows in self.rows_by_shard.items()}

    def withhold(self, shards: Sequence[Shard], ambiguous: "Ambiguous") -> dict[Shard, bytes]:
        """Return the samples that do not get their row, as ``withheld_rows`` does.

        All samples must have been listed here first.

        ``shards``: all shards, in their order.
        """
        rows = self.rows_by_number(shards)
        first = FirstSamples.of(rows, self.shared_rows) if ambiguous == "first" else None
        withheld = withheld_rows(rows, self.shared_rows, first)
        return {shards[number]: bits for number, bits in withheld.items()}

    def _add(self, shard: Shard, noted: "Sequence[int]") -> None:
        import numpy as np

        self.samples += len(noted)
        all_rows = np.asarray(noted, np.int64)
        if self.rows_by_shard is not None:
            self.rows_by_shard[shard] = all_rows
        self.withheld += int((all_rows == WITHHELD).sum())
        matched = all_rows[all_rows >= 0]
        self.matched += len(matched)
        rows, counts = np.unique(matched, return_counts=True)
        masks = np.left_shift(1, rows & 7).astype(np.uint8)
        is_shared = (counts > 1) | ((self.used_rows[rows >> 3] & masks) != 0)
        np.bitwise_or.at(self.used_rows, rows >> 3, masks)
        np.bitwise_or.at(self.shared_rows, rows[is_shared] >> 3, masks[is_shared])
        several: list[int] = []
        if self._index.repeated_values:
            several = [row for row in matched.tolist() if self._index.has_several_rows(row)]
        self.with_several_rows += len(several)
        for row in rows[is_shared].tolist() + several:
            if len(self.examples) == _EXAMPLES:
                break
            value = self._index.join_value(row)
            if value not in self.examples:
                self.examples.append(value)
