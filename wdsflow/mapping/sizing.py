"""How many rows go into a batch, how many workers fit, and functions that fail for rows together."""

import logging
import sys
from collections import deque
from collections.abc import Mapping
from typing import Any

from wdsflow.memory.sizes import weigh
from wdsflow.text.shell import escape

from .map_worker import Failed, RowBatch

_MANY, _LOOKED_AT = 256, 64


def weigh_results(value: Any) -> int:
    """Return about how many bytes a value takes: arrays, tensors, images and tables by their content, text as it is.

    Of a list with more than 256 entries, 64 are weighed.

    >>> weigh_results([0.5] * 1_000_000) > 20_000_000
    True
    """
    if isinstance(value, Mapping):
        return sum(map(weigh_results, value.values())) + 64 * len(value)
    if isinstance(value, (list, tuple)):
        step = max(1, len(value) // _LOOKED_AT) if len(value) > _MANY else 1
        looked_at = value[::step]
        return sum(map(weigh_results, looked_at)) * len(value) // max(len(looked_at), 1) + 8 * len(value)
    return sys.getsizeof(value) if isinstance(value, (int, float)) else weigh(value)


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


COMFORT = 0.6  # of the room that a worker has; rows differ
_CLEAN = 8  # batches without trouble, after which they may grow beyond what was too much
_EACH = 2  # rows that each of several workers has room for, at least


class Sizer:
    """Learns what a row takes.

    A batch is at most twice as long as the longest so far, and half as long as one that was too much; that is forgotten
    slowly, as the memory may have been somebody else's for a while.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._needs: deque[float] = deque(maxlen=16)
        self._longest = 0
        self._ceiling = float(most)
        self._clean = 0

    @property
    def need(self) -> float:
        """The bytes that a row takes, by the greediest of the latest batches."""
        return max(self._needs, default=0.0)

    def rows(self, room: int) -> int:
        """Return how many rows to map at once where a worker may grow by ``room`` bytes."""
        fits = room * COMFORT / self.need if self.need else self.most
        return max(1, int(min(fits, 2 * self._longest or 1, self._ceiling, self.most)))

    def learn(self, rows: int, grown: int) -> None:
        """Take in what a batch took that went well."""
        self._needs.append(grown / rows)
        self._longest = max(self._longest, rows)
        self._clean += 1
        if self._clean >= _CLEAN:
            self._clean, self._ceiling = 0, min(self._ceiling * 1.25 + 1, self.most)

    def too_much(self, rows: int) -> None:
        """Take in that a batch was too much."""
        self._clean, self._ceiling = 0, max(1.0, min(self._ceiling, rows / 2))


def fitting(memory: int, idle: int, need: float, most: int) -> int:
    """Return how many workers fit into ``memory`` bytes, each with room for two rows; at least 1, at most ``most``.

    ``idle``: bytes of a worker next to its rows.

    >>> fitting(2 << 30, 200 << 20, 60 << 20, 16)
    5
    """
    return max(1, min(most, int(memory // (idle + _EACH * need / COMFORT + 1))))
