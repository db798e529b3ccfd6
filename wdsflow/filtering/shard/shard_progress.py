"""How much of a shard is scored, reported to the process of the run."""

from collections.abc import Iterable

from wdsflow.engines.mark import Mark
from wdsflow.filtering.ledger.sample_table import LedgerRow


class ShardProgress:
    """Counts the samples of a shard whose scores are computed, in any order.

    Args:
        mark: gets the counts.
        length: bytes of the tar, None if unknown.
    """

    def __init__(self, mark: Mark, length: int | None) -> None:
        self._mark = mark
        self._length = length or 0
        self._samples = 0
        self._bytes = 0

    def add(self, rows: Iterable[LedgerRow]) -> None:
        """Count samples as done."""
        for row in rows:
            self._samples += 1
            self._bytes += row.end - row.start
        share = 0.0
        if self._length:
            share = min(1.0, self._bytes / self._length)
        self._mark.set_progress(self._samples, share)
