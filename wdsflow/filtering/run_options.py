"""Options of a run that do not change a byte of the output."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.engines.base import EngineName, check_engine
from wdsflow.memory.sizes import parse_size
from wdsflow.text.options import (
    MACHINES,
    MEMORY,
    MODELS,
    OTHER,
    OUTPUT,
    address_option,
    allow_pipe_option,
    option,
    restart_option,
)

if TYPE_CHECKING:
    from .run_progress import RunSoFar

# In place of an activity: the names in all shards are read to compare them with a table.
LISTING = "listing"


class LocalOnly(ValueError):
    """An option does not work with an output folder in an object store.

    ``options`` names what to leave out.
    """

    def __init__(self, message: str, *options: str) -> None:
        super().__init__(message)
        self.options = options


class OutputError(OSError):
    """An output could not be written, and the run stopped.

    Finished shards are kept, partial ones removed.
    """


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run works; the recipe decides which samples are kept. ``memory`` is in bytes.

    Attributes:
        say: called with lines about loaded models.
        begin: called with the number of shards and the activity: "measuring" or "writing", and
            before it "listing", if a table is joined. Its result is called after each shard.
        watch: called several times a second, from another thread, with the progress within shards.
    """

    jobs: int | None = option(
        None,
        "Number of processes; by default up to one per core, of this machine or of the cluster; two here if shards are remote. 0: none but this one.",
        metavar="N",
        least=0,
    )
    restart: bool = restart_option()
    dry_run: bool = option(False, "Write nothing; print what would be kept.")
    quarantine: Path | None = option(
        None,
        "Folder for quarantined samples; OUT/.wdsflow/quarantine by default.",
        metavar="DIR",
        panel=OUTPUT,
    )
    memory: int | None = option(
        None,
        "Memory limit for all processes together, such as 4GiB.",
        metavar="SIZE",
        panel=MEMORY,
        parse=parse_size,
    )
    engine: EngineName = option(
        "local",
        "local: processes on this machine. ray: a Ray cluster (needs the extra ray). All its nodes must see shards that are files, and the output folder, under the same paths.",
        metavar="ENGINE",
        panel=MACHINES,
    )
    address: str | None = address_option()
    device: str = option(
        "auto",
        "Where models run: auto (all GPUs, or the CPU if there is none), cpu, cuda, cuda:1.",
        metavar="DEVICE",
        panel=MODELS,
    )
    gpu_memory: str | None = option(
        None, "Limit for models on each GPU: 8GiB or 80%.", metavar="SIZE", panel=MODELS
    )
    index: int = option(
        0,
        "Process only slice I of the shards, counted from 0; for job arrays.",
        "--shard-index",
        metavar="I",
        panel=MACHINES,
        least=0,
    )
    count: int = option(
        1, "Number of slices.", "--shard-count", metavar="N", panel=MACHINES, least=1
    )
    allow_pipe: bool = allow_pipe_option(OTHER)
    say: Callable[[str], object] | None = None
    begin: Callable[[int, str], Callable[[object], object] | None] | None = None
    watch: "Callable[[RunSoFar], object] | None" = None

    def __post_init__(self) -> None:
        """Refuse invalid options."""
        check_engine(self.engine, self.address)
        if self.engine == "ray" and self.jobs == 0:
            raise ValueError("0 jobs means this process: leave out the number, or the engine ray")
        if not 0 <= self.index < self.count:
            raise ValueError(
                f"slice {self.index} of {self.count} does not exist: slices count from 0"
            )
        if self.restart and self.count > 1:
            raise ValueError(
                "--restart would remove what other slices wrote: remove the folder before they start"
            )


def say_lines(options: RunOptions, lines: Iterable[str]) -> None:
    """Report lines to the caller of a run."""
    if options.say is not None:
        for line in lines:
            options.say(line)
