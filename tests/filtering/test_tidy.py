"""What a finished run leaves behind, and nothing else."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.filtering.shards import write_shards
from tests.shards.archives import write_tar
from wdsflow import Recipe, RunOptions, filter_shards
from wdsflow.records.folder_lock import Busy, Lock

HERE = RunOptions(jobs=0)


def below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_a_finished_folder_has_what_a_user_needs(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=2, samples=8)
    filter_shards(source, tmp_path / "out", Recipe(where="min_side >= 200"), RunOptions(jobs=2))
    inside = [
        "",
        "/run.json",
        "/manifest.jsonl",
        "/ledger",
        "/ledger/00000.parquet",
        "/ledger/00001.parquet",
    ]
    mine = {f".wdsflow{name}" for name in inside}
    assert below(tmp_path / "out") == mine | {"00000.tar", "00001.tar", "sizes.json", "__len__"}
    assert (
        filter_shards(source, tmp_path / "out", Recipe(where="min_side >= 200"), HERE).resumed == 2
    )
    assert below(tmp_path / "out") == mine | {"00000.tar", "00001.tar", "sizes.json", "__len__"}


@pytest.mark.deep
def test_after_two_passes_nothing_is_left_of_what_went_between_them(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=2, samples=8)
    filter_shards(source, tmp_path / "out", Recipe(where="not duplicate"), HERE)
    left = below(tmp_path / "out" / ".wdsflow")
    assert {
        name
        for name in left
        if "lock" in name or "spool" in name or "resolved" in name or "tars" in name
    } == set()
    assert {
        "scored/.wdsflow/run.json",
        "scored/.wdsflow/ledger/00000.parquet",
        "ledger/00000.parquet",
    } <= left
    assert filter_shards(source, tmp_path / "out", Recipe(where="not duplicate"), HERE).resumed == 2


@pytest.mark.deep
def test_a_run_that_starts_again_leaves_nothing_of_the_one_before(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=2, samples=8)
    plain, restart = Recipe(where="min_side >= 200"), RunOptions(jobs=0, restart=True)
    filter_shards(source, tmp_path / "fresh", plain, HERE)
    several = Recipe(where="not duplicate")
    filter_shards(source, tmp_path / "out", several, HERE)
    filter_shards(source, tmp_path / "out", plain, restart)
    assert below(tmp_path / "out") == below(tmp_path / "fresh")


def test_what_was_put_aside_stays(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("a.jpg", b"no image")])
    filter_shards(str(tmp_path / "0.tar"), tmp_path / "out", Recipe(where="min_side > 1"), HERE)
    assert {"quarantine/0.tar", "quarantine/0.jsonl"} <= below(tmp_path / "out" / ".wdsflow")


def test_slices_leave_the_folder_to_those_that_still_work(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=2, samples=4)
    inside = tmp_path / "out" / ".wdsflow"

    def run(index: int) -> set[str]:
        filter_shards(
            source,
            tmp_path / "out",
            Recipe(where="bytes > 1"),
            RunOptions(jobs=0, index=index, count=2),
        )
        return {name for name in below(inside) if name.startswith("lock")}

    inside.mkdir(parents=True)
    with Lock(inside / "lock", shared=True):  # the other slice works
        assert run(0)
        assert not (tmp_path / "out" / "sizes.json").exists()
    assert run(0) == set()
    assert {"unfinished.json"} <= below(inside)
    assert run(1) == set()
    assert (tmp_path / "out" / "__len__").read_text() == "8\n"
    assert "unfinished.json" not in below(inside)


def test_slices_of_a_finished_run_count_the_shards_that_changed_since(tmp_path: Path):
    source, recipe = write_shards(tmp_path / "in", shards=2, samples=4), Recipe(where="bytes > 1")
    filter_shards(source, tmp_path / "out", recipe, HERE)
    write_shards(tmp_path / "more", shards=2, samples=6)
    (tmp_path / "more/00000.tar").replace(tmp_path / "in/00000.tar")
    for index in range(2):
        report = filter_shards(
            source, tmp_path / "out", recipe, RunOptions(jobs=0, index=index, count=2)
        )
        assert len(report.changed) == 1 - index
    assert json.loads((tmp_path / "out/sizes.json").read_text()) == {"00000.tar": 6, "00001.tar": 4}
    assert filter_shards(source, tmp_path / "out", recipe, HERE).resumed == 2


def test_a_lock_that_was_removed_keeps_nobody_away_and_lets_two_in_never(tmp_path: Path):
    path = tmp_path / "in" / "lock"
    path.parent.mkdir()
    inside, most, rounds = [0], [0], 60

    def work():
        for _ in range(rounds):
            with Lock(path, patience=30) as lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1
                lock.remove()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    script = "import sys; from pathlib import Path; from wdsflow.records.folder_lock import Lock; Lock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as other:
        assert other.stdout.readline() == b"held\n"
        try:
            Lock(path, patience=0)
        except Busy:
            pass
        else:
            raise AssertionError("two hold it")
        other.communicate()
    Lock(path, patience=5).close()
