"""What the program that started this process says of the ranks, and how a refusal of the first rank ends all."""

import os
import re
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import ModuleType
from typing import Any

from wdsflow.engines.site import usable_cores
from wdsflow.training.stalls.rank_board import connect

# torchrun, Open MPI, MPICH and Intel MPI, MVAPICH
_RANKS_HERE = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE")
_RUN = re.compile(r"(\d+)(?:\(x(\d+)\))?")  # "8(x2),4": two nodes of 8 tasks, one of 4


def rank_and_world() -> tuple[int, int]:
    """Return this process's rank and the number of ranks, from the variables that OpenCLIP reads."""
    rank = _number(("RANK", "PMI_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"), 0)
    world = _number(("WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"), 1)
    return rank, world


def launcher_words() -> list[str]:
    """Return what stands in front of the command of a run of several ranks, as far as the variables tell."""
    world = rank_and_world()[1]
    if world == 1:
        return []
    if "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("LOCAL_WORLD_SIZE") == str(world):
        return ["torchrun", "--nproc_per_node", str(world), "-m"]
    return ["srun", "--ntasks", str(world)] if "SLURM_PROCID" in os.environ else []


def ranks_here() -> int:
    """Return how many ranks run on this machine, at least 1; 1, too, where nothing tells.

    torchrun and MPI say it themselves. Under srun it is the number of tasks of this step on this node (srun(1),
    SLURM_STEP_TASKS_PER_NODE); one that starts torchrun or mpirun on each node is overruled by these.
    """
    for name in _RANKS_HERE:
        with suppress(KeyError, ValueError):
            return max(1, int(os.environ[name]))
    return _tasks_of_slurm() or 1


def cores_for_rank() -> int:
    """Return how many processors there are for each rank on this machine, at least 1.

    srun may have bound this task to its own processors, which then are not shared with the other ranks.
    """
    ranks, cores = ranks_here(), usable_cores()
    if not any(name in os.environ for name in _RANKS_HERE):
        with suppress(KeyError, ValueError):
            return max(1, min(cores, int(os.environ["SLURM_CPUS_ON_NODE"]) // ranks))
    return max(1, cores // ranks)


def _tasks_of_slurm() -> int:
    runs = _RUN.findall(os.environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    node = _number(("SLURM_NODEID",), 0)
    for tasks, nodes in runs:
        node -= int(nodes or 1)
        if node < 0:
            return int(tasks)
    return 0


def _number(names: Sequence[str], default: int) -> int:
    return next((int(os.environ[name]) for name in names if name in os.environ), default)


_PATIENCE = timedelta(minutes=2)  # that ranks may be apart when they have found each other
_FAREWELL = 5.0  # seconds in which the others read it, before the process that keeps the store ends


class Refused(Exception):
    """The first rank refuses to train on these shards; it has said why."""


def ends_others() -> bool:
    """Return whether the program that started this rank ends the others when this one fails: torchrun does."""
    return "TORCHELASTIC_RUN_ID" in os.environ


@contextmanager
def shared(main: ModuleType, refused: bool) -> Iterator[None]:
    """Let all ranks of ``open_clip_train.main`` learn what the first one decided, as soon as they are connected.

    Raises:
        Refused: in each of them, if it is so.
    """
    original = getattr(main, "init_distributed_device", None)
    if original is None:
        if refused:
            raise Refused
        yield
        return

    def init_distributed_device(args: Namespace) -> Any:
        device = original(args)
        if _decision(refused):
            raise Refused("" if refused else "the first rank refuses to train on these shards; it says why")
        return device

    vars(main)["init_distributed_device"] = init_distributed_device
    try:
        yield
    finally:
        vars(main)["init_distributed_device"] = original


def _decision(refused: bool) -> bool:
    """Return what the first rank decided; ``refused`` counts on that rank only."""
    with suppress(RuntimeError):  # a store that is gone, or does not answer, stops nobody
        board = connect()
        if board is None:
            return refused
        if board.rank:
            refused = board.ask("decision", _PATIENCE) == "refused"
        else:
            board.tell("decision", "refused" if refused else "train")
        if refused:
            board.acknowledge()
            until = time.monotonic() + _FAREWELL
            while not board.rank and time.monotonic() < until and not board.known_to_all():
                time.sleep(0.05)
    return refused
