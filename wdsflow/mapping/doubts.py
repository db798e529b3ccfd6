"""Notices a function that fails for rows together and not for each by itself: what it makes of a row depends on others."""

import logging

from wdsflow.text.escape import escape

from .map_messages import Failed, RowBatch

log = logging.getLogger("wdsflow.mapping")


class Doubts:
    """Remembers batches that failed until a row of theirs did. The first of which none did is reported, once."""

    def __init__(self) -> None:
        self._open: list[tuple[int, int, str]] = []
        self._told = False

    def note(self, batch: RowBatch, failed: Failed) -> None:
        """Take in that a batch failed, and not for want of memory."""
        if not self._told:
            self._open.append((batch.start, batch.stop, failed.text))

    def pass_by(self, batch: RowBatch, *, failed: bool) -> None:
        """Take in that the rows before ``batch.stop`` are done; the last batch of them is one row that failed, or went well."""
        if failed:
            self._open = [each for each in self._open if not each[0] <= batch.start < each[1]]
        for start, stop, text in [each for each in self._open if each[1] <= batch.stop]:
            self._open.remove((start, stop, text))
            if not self._told:
                log.warning(
                    "rows %d to %d failed together (%s), but not in smaller batches: does fn take a batch for a whole?",
                    start,
                    stop - 1,
                    escape(text, 300),
                )
            self._told = True
