"""Programs that call wdsflow on a Ray cluster, from any process.

They are unchanged afterwards, and leave nothing behind.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from tests.engines.cluster import ROOT, Cluster
from tests.filtering.shards import write_shards
from tests.processes import await_end, living_children
from wdsflow.engines.base import EngineError
from wdsflow.engines.cluster import connect_to_cluster

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
    pytest.mark.usefixtures("new_interpreters"),
    pytest.mark.xdist_group("cluster"),
]


@pytest.fixture
def alone() -> Iterator[dict[str, str]]:
    """The environment of a machine on which Ray never ran."""
    folder = tempfile.mkdtemp(prefix="ray-")  # names of sockets may not be long
    yield {
        **{name: os.environ[name] for name in os.environ if name != "RAY_ADDRESS"},
        "RAY_TMPDIR": folder,
    }
    shutil.rmtree(folder, ignore_errors=True)


def program(name: str, folder: Path, environment: dict[str, str]) -> None:
    source = write_shards(folder / "in", shards=3, samples=20)
    words = ["-m", "tests.engines.programs", name, source, str(folder / "out")]
    subprocess.run(
        [sys.executable, *words], cwd=ROOT, env={**environment, "PYTHONPATH": str(ROOT)}, check=True
    )


def started(environment: dict[str, str]) -> list[psutil.Process]:
    """Return the processes that have a folder for Ray in common."""
    folder = environment["RAY_TMPDIR"]
    every = psutil.process_iter(["environ"])
    return [
        process for process in every if (process.info["environ"] or {}).get("RAY_TMPDIR") == folder
    ]


@pytest.mark.deep
def test_a_program_that_forks_later_is_as_it_was_and_a_cluster_of_its_own_is_gone(
    tmp_path: Path, alone: dict[str, str]
) -> None:
    program("forks", tmp_path, alone)
    assert started(alone) == []


@pytest.mark.deep
@pytest.mark.parametrize("where", ["in_ray", "in_loader"])
def test_it_works_from_inside_of_ray_and_of_daemonic_processes(
    tmp_path: Path, cluster: Cluster, where: str
) -> None:
    if where == "in_loader":
        pytest.importorskip("torch", reason="torch is not installed")
    program(where, tmp_path, {**os.environ, **cluster.environment, "RAY_ADDRESS": cluster.address})


@pytest.mark.deep
def test_no_process_of_a_cluster_of_its_own_outlives_a_run_that_is_killed(
    tmp_path: Path, alone: dict[str, str]
) -> None:
    source = Path(write_shards(tmp_path / "in", shards=1, samples=30))
    for number in range(1, 200):
        os.link(source / "00000.tar", source / f"{number:05d}.tar")
    words = [
        "filter",
        str(source),
        "-o",
        str(tmp_path / "out"),
        "--where",
        "blur >= 0",
        "--engine",
        "ray",
    ]
    environment = {**alone, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-m", "wdsflow", *words], env=environment) as process:
        manifest = tmp_path / "out" / ".wdsflow" / "manifest.jsonl"
        while not (manifest.exists() and manifest.stat().st_size):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    await_end(*started(alone))


@pytest.mark.deep
def test_a_driver_that_is_lost_ends_the_run_with_its_reason(cluster: Cluster) -> None:
    known = living_children()

    def lose() -> None:
        with connect_to_cluster(cluster.address):
            for driver in living_children(known):
                driver.kill()

    with pytest.raises(
        EngineError, match="the process that works with the Ray cluster was killed by SIGKILL"
    ):
        lose()
    assert living_children(known) == []
