"""What the program that started this process says of the ranks, and of those on this machine."""

import os
import re
from collections.abc import Sequence
from contextlib import suppress

from wdsflow.engines.cores import usable_cores

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
