"""Models on the nodes of a cluster: in processes of their own, which are replaced where their device is lost."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.cluster import ROOT, Cluster
from tests.filtering.shards import digests
from tests.shards.archives import write_tar
from wdsflow.engines.base import EngineError
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.run_filter import filter_shards
from wdsflow.filtering.run_options import RunOptions
from wdsflow.memory.batching.attempt import POISONED
from wdsflow.stages.scores.score_catalog import all_scores

pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(autouse=True)
def known(scores: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the scores of ``tests.models.own`` be found here, too."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(scores), *sys.path]))
    monkeypatch.syspath_prepend(str(scores))
    all_scores.cache_clear()
    yield
    all_scores.cache_clear()


def shards(folder: Path) -> str:
    folder.mkdir()
    for number, odd in enumerate(("", "hostile", "deadly")):  # one of each is enough: a process has to be started again
        texts = [f"caption {number} {each}" for each in range(30)]
        texts[7] += f" {odd}"
        write_tar(folder / f"{number}.tar", [(f"{at:05d}.txt", text.encode()) for at, text in enumerate(texts)])
    return str(folder)


@pytest.mark.deep
def test_items_that_cost_a_device_or_their_process_are_put_aside_as_on_one_machine(
    tmp_path: Path, cluster: Cluster
) -> None:
    source = shards(tmp_path / "in")
    recipe = Recipe(where='brittle(poisons="hostile", kills="deadly") >= 1')
    alone = filter_shards(source, tmp_path / "alone", recipe, RunOptions(workers=1, device="cpu"))
    many = RunOptions(engine="ray", address=cluster.address, device="cpu")
    together = filter_shards(source, tmp_path / "together", recipe, many)
    assert alone.merged("quarantined") == together.merged("quarantined") == {POISONED: 2}
    assert together.total("kept") == 88
    assert digests(tmp_path / "alone") == digests(tmp_path / "together")


def test_a_device_that_is_lost_in_this_process_ends_the_run_with_advice(tmp_path: Path) -> None:
    source = shards(tmp_path / "in")
    recipe = Recipe(where='brittle(poisons="hostile") >= 1')
    with pytest.raises(EngineError, match=r"illegal memory access.*Run again with --workers 1"):
        filter_shards(source, tmp_path / "out", recipe, RunOptions(workers=0, device="cpu"))
