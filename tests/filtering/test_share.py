"""Memory for all processes together, and for one image."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.filtering.shards import picture
from tests.shards.archives import write_tar
from wdsflow import Recipe, RunOptions, filter_shards
from wdsflow.filtering.passes.pass_engine import BASE, worker_count

pytestmark = pytest.mark.usefixtures("new_interpreters")

MIB = 1 << 20


@pytest.mark.parametrize("workers", [0, 1, 3, 64])
@pytest.mark.parametrize("memory", [600 * MIB, 1024 * MIB, 4096 * MIB])
def test_all_processes_fit_into_the_memory(workers, memory):
    image = 200 * MIB
    count = worker_count(memory, workers, 100, image)
    assert count <= workers
    assert (BASE if count else 0) + max(count, 1) * (BASE + image) <= memory
    if count < workers:
        assert BASE + (count + 1) * (BASE + image) > memory


def test_too_little_memory_is_told_with_what_is_needed():
    with pytest.raises(ValueError, match="need 520 MiB; --image-memory lowers that"):
        worker_count(400 * MIB, 4, 10, 200 * MIB)


@pytest.mark.deep
def test_an_image_beyond_the_budget_is_put_aside_whatever_the_number_of_workers(tmp_path: Path):
    write_tar(
        tmp_path / "0.tar",
        [("a.png", picture(3000, 3000, kind="PNG")), ("b.png", picture(300, 300, kind="PNG"))],
    )
    recipe = Recipe(where="blur >= 0", image_memory="10MiB")
    for workers, memory in ((0, None), (1, 1024 * MIB)):
        out = tmp_path / f"out{workers}"
        report = filter_shards(
            str(tmp_path / "0.tar"), out, recipe, RunOptions(jobs=workers, memory=memory)
        )
        assert (report.total("kept"), report.merged("quarantined")) == (1, {"over-budget": 1})


@pytest.mark.deep
def test_the_whole_tree_stays_below_memory_on_photographs(tmp_path: Path):
    photograph = picture(5000, 4000, kind="PNG")
    for shard in range(2):
        write_tar(tmp_path / f"{shard}.tar", [(f"{shard}{n}.png", photograph) for n in range(3)])
    words = [
        "filter",
        str(tmp_path),
        "-o",
        str(tmp_path / "out"),
        "--where",
        "blur >= 0 and entropy >= 0",
    ]
    limits = ["--memory", "900MiB", "--image-memory", "200MiB", "--jobs", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "wdsflow", *words, *limits], stdout=subprocess.PIPE, text=True
    )
    most = processes = 0
    while process.poll() is None:
        try:
            tree = [
                psutil.Process(process.pid),
                *psutil.Process(process.pid).children(recursive=True),
            ]
            most = max(most, sum(each.memory_info().rss for each in tree))
            processes = max(processes, len(tree))
        except psutil.Error:
            pass
        time.sleep(0.01)
    told, _ = process.communicate()
    assert process.returncode == 0
    assert "6  kept" in told
    assert processes == 1 + 2 * 2  # each worker has a keeper
    assert 0 < most < 900 * MIB
