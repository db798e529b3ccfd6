"""How a run works; these options do not change a byte of the output."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wdsflow.engines.base import EngineName, check_engine

from .run_folder import ShardFailure, ShardRecord

Tell = Callable[[ShardRecord | ShardFailure], object]


class OutputError(OSError):
    """An output could not be written, and the run stopped. Finished shards are kept, partial ones removed."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run works.

    Attributes:
        engine: "local" for processes of this machine, or "ray". All nodes of a Ray cluster must see the output, and
            shards that are files, under the same paths.
        address: address of the Ray cluster. None takes ``RAY_ADDRESS``, the cluster of this machine, or a new one.
        workers: number of processes; None for one per core, 0 for none but this one.
        memory: limit in bytes for all processes together.
        quarantine: folder for quarantined samples; None for ``_wdsflow/quarantine`` in the output.
        restart: remove what an earlier run wrote.
        dry_run: write nothing; report what would be kept.
        index: the slice of the shards that this run processes, counted from 0.
        count: number of slices.
        allow_pipe: run ``pipe:`` urls in a shell.
        device: where models run; "auto" for all GPUs, or the CPU if there is none.
        gpu_memory: limit for models on each GPU, "8GiB" or "80%".
        say: called with lines about loaded models.
        begin: called with the number of shards and what is done to them, "scoring" or "writing". What it returns is
            called after each shard.
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
        """Refuse invalid options."""
        check_engine(self.engine, self.address)
        if self.engine == "ray" and self.workers == 0:
            raise ValueError("0 workers means this process: leave out the number, or the engine ray")
        if not 0 <= self.index < self.count:
            raise ValueError(f"slice {self.index} of {self.count} does not exist: slices count from 0")
        if self.restart and self.count > 1:
            raise ValueError("--restart would remove what other slices wrote: remove the folder before they start")
