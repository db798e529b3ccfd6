"""A warning about batches that fail as a whole, although none of their rows does."""

import logging
from typing import NamedTuple

from wdsflow.text.shell import escape

from .messages import Failed, RowBatch

log = logging.getLogger("wdsflow.mapping")


class _FailedRows(NamedTuple):
    """A batch that failed: its first row, the row after its last, and the error."""

    start: int
    stop: int
    text: str


class BatchFailures:
    """Warns, once, about a batch that failed although none of its rows fails in a smaller batch."""

    def __init__(self) -> None:
        # Those whose rows are not all done.
        self._open: list[_FailedRows] = []
        self._warned = False

    def add(self, batch: RowBatch, failed: Failed) -> None:
        """Record a batch that failed for another reason than memory."""
        if not self._warned:
            self._open.append(_FailedRows(batch.start, batch.stop, failed.text))

    def record_done(self, batch: RowBatch, *, failed: bool) -> None:
        """Record that the rows before ``batch.stop`` are done.

        ``failed``: the batch is a single row, which failed.
        """
        if failed:
            # The larger batch failed because of this row.
            self._open = [
                failure for failure in self._open if not failure.start <= batch.start < failure.stop
            ]
        finished = [failure for failure in self._open if failure.stop <= batch.stop]
        self._open = [failure for failure in self._open if failure.stop > batch.stop]
        if finished and not self._warned:
            start, stop, text = finished[0]
            log.warning(
                "rows %d to %d failed together (%s), but not in smaller batches: does fn take a batch for a whole?",
                start,
                stop - 1,
                escape(text, 300),
            )
            self._warned = True
