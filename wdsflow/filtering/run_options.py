"""How a run works; none of it changes a byte of what comes out."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wdsflow.engines.base import EngineName, check_engine
from wdsflow.filtering.folder.shard_record import ShardFailure, ShardRecord

Tell = Callable[[ShardRecord | ShardFailure], object]


class OutputError(OSError):
    """An output could not be written; the run stopped. Whole outputs stay, half ones do not."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run works.

    ``engine``: "local", or "ray" for the Ray cluster at ``address`` (None: ``RAY_ADDRESS``, that of this machine, or a
    new one); all its nodes have to see the output, and shards that are files, under the same paths.
    ``workers``: processes, None for one a core, 0 for this process. ``memory``: bytes for all processes together.
    ``restart``: remove what an earlier run wrote. ``index`` of ``count``: the slice of the shards that is this run's.
    ``device``: where models run, "auto" for all GPUs that there are, else the CPU; ``gpu_memory``: how much of one they
    may take, "8GiB" or "80%".
    ``say``: called with lines about models that were loaded.
    ``begin``: called with the number of shards to do, and with what is done to them ("scoring", "writing"); what it
    returns is called after each of them.
    """

    engine: EngineName = "local"
    address: str | None = None
    workers: int | None = None
    memory: int | None = None
    quarantine: Path | None = None
    restart: bool = False
    dry_run: bool = False
    index: int = 0
    count: int = 1
    allow_pipe: bool = False
    device: str = "auto"
    gpu_memory: str | None = None
    say: Callable[[str], object] | None = None
    begin: Callable[[int, str], Tell | None] | None = None

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        check_engine(self.engine, self.address)
        if self.engine == "ray" and self.workers == 0:
            raise ValueError("0 workers means this process: leave the number out, or the engine ray")
        if not 0 <= self.index < self.count:
            raise ValueError(f"there is no slice {self.index} of {self.count}: they count from 0")
        if self.restart and self.count > 1:
            raise ValueError("--restart would remove what other slices wrote: remove the folder before they start")
