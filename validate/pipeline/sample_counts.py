"""How many samples the processes of a run have read and delivered so far, added up over the workers of a loader."""

import fcntl
import os
from pathlib import Path

from wdsflow.engines.peer import Note

from .run_reports import DATASET, MAIN

_PLACES = (MAIN, DATASET)


class SampleCounts:
    """Two counts for each kind of process, in memory that all of them share: samples read, and elements delivered."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "counts", os.O_RDWR | os.O_CREAT)
        self._note = Note("<qqqq", self._file)

    def add(self, place: str, read: int, delivered: int) -> None:
        """Add to the counts of one kind of process."""
        at = 2 * _PLACES.index(place)
        # Several processes add to one number.
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            counts = list(self._note.read())
            counts[at] += read
            counts[at + 1] += delivered
            self._note.write(*counts)
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)

    def of(self, place: str) -> tuple[int, int]:
        """Return how many samples processes of one kind have read, and how many elements they have delivered."""
        at = 2 * _PLACES.index(place)
        read, delivered = self._note.read()[at : at + 2]
        return read, delivered
