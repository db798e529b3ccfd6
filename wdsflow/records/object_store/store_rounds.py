"""The order in which the changes of a run reach an object store.

A run may be killed after any of them. In this order the next run can finish what it began: the mark
of an unfinished run is the first to be written and the last to be removed, options follow the
removal of outputs that were made with others, and counts follow the outputs.
"""

from enum import IntEnum
from pathlib import PurePosixPath

from wdsflow.records.shard_counts import COUNTS
from wdsflow.records.unfinished import INSIDE, MARK


class Round(IntEnum):
    """Changes that may be made at the same time; the rounds follow one another."""

    MARK_WRITTEN = 0
    OUTPUTS_WRITTEN = 1
    OUTPUTS_REMOVED = 2
    LINES_REMOVED = 3
    OPTIONS_WRITTEN = 4
    COUNTS_WRITTEN = 5
    COUNTS_REMOVED = 6
    OPTIONS_REMOVED = 7
    MARK_REMOVED = 8


def round_of_write(name: str) -> Round:
    """Return the round in which a file is written to the store."""
    path = PurePosixPath(name)
    is_inside = path.parent.name == INSIDE
    if is_inside and path.name == MARK:
        return Round.MARK_WRITTEN
    if path.name in COUNTS:
        return Round.COUNTS_WRITTEN
    if is_inside and path.suffix == ".json":
        return Round.OPTIONS_WRITTEN
    return Round.OUTPUTS_WRITTEN


def round_of_removal(name: str) -> Round:
    """Return the round in which a file is removed from the store."""
    path = PurePosixPath(name)
    is_inside = path.parent.name == INSIDE
    if is_inside and path.name == MARK:
        return Round.MARK_REMOVED
    if path.name in COUNTS:
        return Round.COUNTS_REMOVED
    if is_inside and path.suffix == ".json":
        return Round.OPTIONS_REMOVED
    if is_inside and path.suffix == ".jsonl":
        return Round.LINES_REMOVED
    return Round.OUTPUTS_REMOVED
