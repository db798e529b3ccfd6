"""Properties of every engine: a bounded window, one answer a task.

A run ends if a machine is unfit.
"""

import sys
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.filtering.shards import write_shards
from wdsflow import Recipe, RunOptions
from wdsflow.engines.base import Engine, EngineError, EnvironmentMismatchError, work_on
from wdsflow.engines.first_here import InProcessFirstEngine
from wdsflow.engines.local import LocalEngine
from wdsflow.engines.mark import Mark
from wdsflow.engines.own_process import InProcessEngine
from wdsflow.engines.site import Site, first_local
from wdsflow.filtering.passes.pass_engine import engine_for
from wdsflow.filtering.shard.run_shard import run_shard
from wdsflow.filtering.shard.shard_task import ShardTask
from wdsflow.records.run_folder import Layout
from wdsflow.scan.evidence import ScanOptions
from wdsflow.scan.scan_pool import ScanTask, scan_task
from wdsflow.shards.source.base import single_shard


def test_no_more_tasks_are_taken_than_are_worth_having_under_way(tmp_path: Path) -> None:
    source = write_shards(tmp_path, shards=1, samples=1)
    taken: list[int] = []
    answered: list[int] = []

    def tasks() -> Iterator[ScanTask]:
        for number in range(20):
            taken.append(number)
            assert len(taken) - len(answered) <= 5
            yield ScanTask(number, single_shard(f"{source}/00000.tar"), ScanOptions())

    for task, answer in work_on(LocalEngine(scan_task, 2), tasks()):
        answered.append(task.number)
        assert answer.samples == 1
    assert sorted(answered) == taken == list(range(20))


def test_workers_find_the_modules_of_this_process_and_commands_get_no_path_of_ours(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    (tmp_path / "beside.py").write_text(
        "import os\ndef path(task, mark): return os.environ.get('PYTHONPATH', 'none')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    task = ScanTask(0, single_shard("a.tar"), ScanOptions())
    assert list(work_on(LocalEngine(import_module("beside").path, 1), [task])) == [(task, "none")]


def test_all_that_a_worker_started_ends_with_it_in_whatever_session(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.delitem(sys.modules, "leaving", raising=False)
    (tmp_path / "leaving.py").write_text(
        "import os, subprocess\n"
        "def start(task, mark): return subprocess.Popen(['sleep', '600'], start_new_session=True).pid\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    task = ScanTask(0, single_shard("a.tar"), ScanOptions())
    ((_, left),) = work_on(LocalEngine(import_module("leaving").start, 1), [task])
    assert not psutil.pid_exists(left)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_machine_with_other_libraries_ends_the_run(tmp_path: Path, workers: int) -> None:
    source = write_shards(tmp_path / "in", shards=1, samples=1)
    expected = {"width": {"name": "width", "versions": {"pillow": "0.1"}}}
    recipe = Recipe(where="width > 0")
    task = ShardTask(
        0,
        single_shard(f"{source}/00000.tar"),
        "0.tar",
        recipe,
        Layout(tmp_path),
        metadata={"identities": expected},
    )
    engine: Any = LocalEngine(run_shard, workers) if workers else InProcessEngine(run_shard)
    with pytest.raises(EngineError, match="would compute other values"):
        list(work_on(engine, [task]))
    with open(tmp_path / "mark", "w+b") as file, pytest.raises(EnvironmentMismatchError):
        run_shard(task, Mark(file.fileno()))


@pytest.mark.parametrize(
    ("where", "workers", "scores", "expected"),
    [
        ("width > 0", None, True, InProcessFirstEngine),
        ("width > 0", 1, True, LocalEngine),
        ("width > 0", 0, True, InProcessEngine),
        ("blur > 0", None, True, LocalEngine),  # a picture may end the process that decodes it
        ("blur > 0", None, False, InProcessFirstEngine),  # ledgers have its values
    ],
)
def test_a_filter_begins_in_this_process_where_it_decodes_nothing(
    tmp_path: Path, where, workers, scores, expected
) -> None:
    source = write_shards(tmp_path / "in", shards=2, samples=1)
    urls = [single_shard(f"{source}/{name}.tar") for name in ("00000", "00001")]
    options = RunOptions(jobs=workers)
    engine = engine_for(
        Recipe(where=where), Layout(tmp_path), options, urls, [], None, scores=scores
    )
    engine.close()
    assert type(engine) is expected


@pytest.mark.parametrize(
    ("where", "device", "scores", "gpus"),
    [
        ("clip_similarity() > 0.2", "auto", True, 0.25),
        ("clip_similarity() > 0.2", "cpu", True, 0.0),
        ("clip_similarity() > 0.2", "auto", False, 0.0),  # ledgers have its values
        ("width > 0", "auto", True, 0.0),
    ],
)
def test_workers_of_a_cluster_ask_for_gpus_where_models_may_run_there(
    tmp_path: Path, where, device, scores, gpus
) -> None:
    requested: dict[str, float] = {}

    def cluster(make: partial[Engine[ShardTask]]) -> Engine[ShardTask]:
        requested.update(make.keywords)
        return InProcessEngine(run_shard)

    options = RunOptions(engine="ray", device=device, dry_run=True)
    engine_for(Recipe(where=where), Layout(tmp_path), options, [], [], cluster, scores=scores)

    assert requested["gpus"] == gpus


def test_a_machine_says_what_it_lacks(tmp_path: Path) -> None:
    assert Site().why_unusable() == ""
    assert (
        f"does not see {tmp_path}/none"
        in Site(shared_paths=(str(tmp_path), f"{tmp_path}/none")).why_unusable()
    )
    assert "and 0.0 where the run was started" in Site(version="0.0").why_unusable()
    assert Site(folder=f"{tmp_path}/none").start_folder() is None
    assert first_local([None, f"{tmp_path}/none", str(tmp_path)]) == (str(tmp_path),)
    assert first_local([None]) == ()


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="an address is for the engine ray"):
        RunOptions(address="auto")
    with pytest.raises(ValueError, match="no engine is called 'spark': use one of local, ray"):
        RunOptions(engine="spark")
    with pytest.raises(ValueError, match="0 jobs means this process"):
        RunOptions(engine="ray", jobs=0)
