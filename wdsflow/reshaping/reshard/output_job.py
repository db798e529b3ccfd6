"""One output of a reshard: which samples it has, in which order."""

from dataclasses import dataclass
from pathlib import Path

from .row_file import RowFile


@dataclass(frozen=True, eq=False)
class OutputShardJob:
    """One output to write.

    Attributes:
        rows: the samples of its part, in order.
        start: the first of its samples.
        end: the sample after its last one.
        is_scattered: neighbours are from anywhere in the inputs, so they are prefetched.
        target: the file to write.
    """

    rows: RowFile
    start: int
    end: int
    is_scattered: bool
    target: Path
