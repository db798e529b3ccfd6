"""Models on the nodes of a Ray cluster, in separate processes.

A process is replaced if its device is lost.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.engines.cluster import ROOT, Cluster
from tests.filtering.shards import digests
from tests.shards.archives import write_tar
from wdsflow import Recipe, RunOptions, filter_shards
from wdsflow.engines.base import EngineError, work_on
from wdsflow.engines.cluster import connect_to_cluster
from wdsflow.engines.ray_engine import RayEngine, gpu_share
from wdsflow.engines.site import Site
from wdsflow.memory.batching.attempt import POISONED
from wdsflow.memory.batching.device import HostDevice
from wdsflow.models.memory_share import memory_share
from wdsflow.stages.scores.model.model import Model

pytestmark = [
    pytest.mark.xdist_group("cluster"),
    pytest.mark.usefixtures("new_interpreters"),
]

pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(autouse=True)
def known(scores: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the scores of ``tests.models.own`` be found here, too."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(scores), *sys.path]))
    monkeypatch.syspath_prepend(str(scores))


def shards(folder: Path) -> str:
    folder.mkdir()
    # One of each is enough: a process has to be started again.
    for number, odd in enumerate(("", "hostile", "deadly")):
        texts = [f"caption {number} {each}" for each in range(30)]
        texts[7] += f" {odd}"
        write_tar(
            folder / f"{number}.tar",
            [(f"{at:05d}.txt", text.encode()) for at, text in enumerate(texts)],
        )
    return str(folder)


@pytest.mark.deep
def test_items_that_cost_a_device_or_their_process_are_put_aside_as_on_one_machine(
    tmp_path: Path, cluster: Cluster
) -> None:
    source = shards(tmp_path / "in")
    recipe = Recipe(where='brittle(poisons="hostile", kills="deadly") >= 1')
    alone = filter_shards(source, tmp_path / "alone", recipe, RunOptions(jobs=1, device="cpu"))
    many = RunOptions(engine="ray", address=cluster.address, device="cpu")
    together = filter_shards(source, tmp_path / "together", recipe, many)
    assert alone.merged("quarantined") == together.merged("quarantined") == {POISONED: 2}
    assert together.total("kept") == 88
    assert digests(tmp_path / "alone") == digests(tmp_path / "together")


@dataclass(frozen=True)
class Heavy(Model, kind="bytes"):
    """Holds so many MB, and takes as many again for an item: two halves."""

    megabytes: int = 0

    def load(self, device: str) -> bytearray:
        """Take the memory."""
        return bytearray(os.urandom(1 << 20) * self.megabytes)

    def run(self, loaded: bytearray, batch: Sequence[bytes]) -> list[int]:
        """Take more, for a moment."""
        return [len(bytes(loaded[: len(loaded) // 2])) for _ in batch]

    def largest(self) -> bytes:
        """Return any item."""
        return b""


def test_the_share_of_a_device_is_that_of_loaded_models_and_their_largest_items() -> None:
    total = HostDevice().memory()["total"]
    one, other = (memory_share([Heavy(megabytes)], "cpu", None) for megabytes in (20, 400))
    assert one is not None
    assert other is not None
    assert 380 * 1.9 < (other - one) * total / 1.2 / 2**20 < 380 * 2.2
    assert memory_share([], "cpu", None) is None
    assert gpu_share(None, quarter, 2.0) == 2.0  # workers that need whole ones


def quarter(*_: object) -> float:
    return 0.23


def sharing(ray: Any, *, declared: float, measure: Callable[[], float | None]) -> "RayEngine[Any]":
    gpus = gpu_share(ray, measure, declared)
    return RayEngine(ray, process_of, Site(), gpus=gpus)


def process_of(task: str, _: object) -> int:
    """Return which process works, after a while."""
    time.sleep(0.5)
    return os.getpid()


@pytest.mark.deep
def test_workers_share_a_gpu_as_the_models_need_it(cluster: Cluster) -> None:
    cluster.lose_node()
    cluster.add_node(gpus=1, cores=4)
    try:
        with connect_to_cluster(cluster.address) as start:
            counts = []
            for measure, declared in ((nothing, 0.5), (heavy_share, 0.5)):
                engine = start(partial(sharing, declared=declared, measure=measure))
                answers = [answer for _, answer in work_on(engine, ["a"] * 16)]
                counts.append(len(set(answers)))
        assert counts == [2, 4]  # the last: as many as there are cores, of eight that would fit
    finally:
        cluster.lose_node()
        cluster.add_node()


def nothing() -> None:
    return None


def heavy_share() -> float | None:
    return memory_share([Heavy(50)], "cpu", None)


def test_a_device_that_is_lost_in_this_process_ends_the_run_with_advice(tmp_path: Path) -> None:
    source = shards(tmp_path / "in")
    recipe = Recipe(where='brittle(poisons="hostile") >= 1')
    with pytest.raises(EngineError, match=r"illegal memory access.*Run again with --jobs 1"):
        filter_shards(source, tmp_path / "out", recipe, RunOptions(jobs=0, device="cpu"))
