import os

import pytest

from wdsflow.engines import site as cores
from wdsflow.training.feed.memory_shares import divide_memory
from wdsflow.training.ranks import cores_for_rank, decoders_for, local_ranks

SLURM = {
    "SLURM_PROCID": "9",
    "SLURM_NTASKS": "20",
    "SLURM_STEP_TASKS_PER_NODE": "8(x2),4",
    "SLURM_CPUS_ON_NODE": "64",
}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """64 processors and no launcher, until the test says otherwise."""
    monkeypatch.setattr(cores, "_GRANTED", tmp_path / "none")
    for name in list(os.environ):
        if name.startswith(("SLURM_", "OMPI_", "MPI_", "MV2_", "LOCAL_WORLD_SIZE")):
            monkeypatch.delenv(name)

    def set_up(variables, usable=64):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(usable)), raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_up


@pytest.mark.parametrize(
    ("variables", "ranks"),
    [
        ({}, 1),
        ({"LOCAL_WORLD_SIZE": "8"}, 8),
        ({"LOCAL_WORLD_SIZE": "none"}, 1),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, 4),
        ({"MPI_LOCALNRANKS": "2"}, 2),
        (SLURM, 8),
        (SLURM | {"SLURM_NODEID": "1"}, 8),
        (SLURM | {"SLURM_NODEID": "2"}, 4),
        (SLURM | {"SLURM_NODEID": "3"}, 1),  # there is no such node
        # Torchrun, by srun.
        (
            SLURM | {"SLURM_STEP_TASKS_PER_NODE": "1", "LOCAL_WORLD_SIZE": "8"},
            8,
        ),
        # A batch script's own process is no step of 8.
        (
            {"SLURM_NTASKS": "8", "SLURM_TASKS_PER_NODE": "8"},
            1,
        ),
    ],
)
def test_each_launcher_says_how_many_ranks_are_here(machine, variables, ranks):
    machine(variables)
    assert local_ranks() == ranks
    assert decoders_for(None) == cores_for_rank() == 64 // ranks
    assert decoders_for(3) == 3


@pytest.mark.parametrize(("usable", "own"), [(64, 8), (8, 8), (2, 2)])
def test_a_task_that_slurm_bound_to_its_processors_has_them_all(machine, usable, own):
    machine(SLURM, usable)
    assert cores_for_rank() == own


def test_ranks_share_the_memory_of_their_machine(machine, monkeypatch):
    from wdsflow.memory import bounds as limits

    monkeypatch.setattr(limits, "control_groups", lambda: [limits.Bound(2 << 30, 0)])
    sizes = {
        "batch": 8,
        "sample": 1 << 10,
        "made": 1 << 10,
        "decoders": 1,
        "chunk": 4,
        "streams": 1,
    }
    machine({})
    alone = divide_memory(None, **sizes)
    machine(SLURM)
    assert sum(divide_memory(None, **sizes)[:3]) <= 160 << 20 < sum(alone[:3])
