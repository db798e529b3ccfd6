"""How a run works; none of it changes a byte of what comes out."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wdsflow.filtering.record import ShardFailure, ShardRecord

Tell = Callable[[ShardRecord | ShardFailure], object]


class OutputError(OSError):
    """An output could not be written; the run stopped. Whole outputs stay, half ones do not."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run works.

    ``workers``: processes, None for one a core, 0 for this process. ``memory``: bytes for all processes together.
    ``restart``: remove what an earlier run wrote. ``index`` of ``count``: the slice of the shards that is this run's.
    ``begin``: called with the number of shards to do; what it returns is called after each of them.
    """

    workers: int | None = None
    memory: int | None = None
    quarantine: Path | None = None
    restart: bool = False
    dry_run: bool = False
    index: int = 0
    count: int = 1
    allow_pipe: bool = False
    begin: Callable[[int], Tell | None] | None = None

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if not 0 <= self.index < self.count:
            raise ValueError(f"there is no slice {self.index} of {self.count}: they count from 0")
        if self.restart and self.count > 1:
            raise ValueError("--restart would remove what other slices wrote: remove the folder before they start")
