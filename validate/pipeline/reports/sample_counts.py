"""Counts of the samples that the processes of a run have read and delivered so far.

They are added up over the workers of a loader.
"""

import fcntl
import os
from pathlib import Path

from wdsflow.engines.mark import SharedValues

from .process_position import DATASET, MAIN, Role

_FILE = "counts"
# Two numbers for each of these: samples read, and elements delivered.
_ROLES: tuple[Role, ...] = (MAIN, DATASET)
_FORMAT = "<qqqq"


class SampleCounts:
    """Two counts for each kind of process: samples read, and elements delivered.

    They are in memory that all processes share.
    """

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / _FILE, os.O_RDWR | os.O_CREAT)
        self._note = SharedValues(_FORMAT, self._file)

    def add(self, role: Role, read: int, delivered: int) -> None:
        """Add to the counts of one kind of process."""
        first = 2 * _ROLES.index(role)
        # Several processes add to one number.
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            counts = list(self._note.read())
            counts[first] += read
            counts[first + 1] += delivered
            self._note.write(*counts)
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)

    def of(self, role: Role) -> tuple[int, int]:
        """Return how many samples processes of one kind have read, and delivered."""
        first = 2 * _ROLES.index(role)
        read, delivered = self._note.read()[first : first + 2]
        return read, delivered
