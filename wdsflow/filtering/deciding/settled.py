"""Notes how much of a shard is scored, where the process of the run can read it."""

from collections.abc import Iterable

from wdsflow.engines.peer import Mark
from wdsflow.filtering.ledger.sample_table import Row


class Settled:
    """The samples of a shard whose scores are computed, in any order. ``length``: bytes of the tar, None if unknown."""

    def __init__(self, mark: Mark, length: int | None) -> None:
        self._mark, self._length = mark, length or 0
        self._samples = self._bytes = 0

    def add(self, rows: Iterable[Row]) -> None:
        """Note that samples are done."""
        for row in rows:
            self._samples += 1
            self._bytes += row.end - row.start
        self._mark.settle(
            self._samples, min(1.0, self._bytes / self._length) if self._length else 0.0
        )
