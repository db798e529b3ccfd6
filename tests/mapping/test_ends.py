"""bounded_map when processes are killed, interrupted or forked, and when the disk is full."""

import errno
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

import wdsflow
from tests.cli.test_unwritable import full_disk
from tests.processes import living_children
from wdsflow.mapping import MappingError
from wdsflow.mapping.map_worker import MapWorker
from wdsflow.mapping.messages import Failed, MapSetup
from wdsflow.shards.scratch import make_scratch, remove_scratch

ROOT = Path(__file__).resolve().parents[2]
MEMORY = "3GiB"  # this process has torch and more

PROGRAM = """
import os, subprocess, sys, time
import datasets, wdsflow

datasets.disable_progress_bars()
pids = sys.argv[1]


def fn(batch):
    child = subprocess.Popen(["sleep", "600"])
    with open(pids, "a") as file:
        file.write(f"{os.getpid()} {child.pid}\\n")
    time.sleep(600 if batch["id"][0] else 0)
    return batch


if sys.argv[2] == "rows":
    list(wdsflow.bounded_map([{"id": number} for number in range(9)], fn, "3GiB", 2))
else:
    wdsflow.bounded_map(datasets.Dataset.from_dict({"id": list(range(9))}), fn, "3GiB", 2)
"""


def wait_until(true):
    while not true():
        time.sleep(0.1)


def alive(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.mark.sample(1)
@pytest.mark.parametrize("which", [pytest.param("rows", marks=pytest.mark.deep), "dataset"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_one_that_asked_and_no_file_the_next_call(tmp_path, which, how):
    pytest.importorskip("datasets")
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "tmp").mkdir()
    places = {
        "HF_HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
        "PYTHONPATH": str(ROOT),
    }
    line = [sys.executable, "program.py", "pids", which]
    with subprocess.Popen(
        line, cwd=tmp_path, env={**os.environ, **places}, stderr=subprocess.PIPE
    ) as process:
        pids = tmp_path / "pids"
        wait_until(lambda: pids.exists() and len(pids.read_text().split()) >= 4)
        process.send_signal(how)
        _, told = process.communicate()
    started = [int(word) for word in pids.read_text().split()]
    wait_until(lambda: not any(map(alive, started)))
    parent = tmp_path / "tmp" if which == "rows" else tmp_path / "home" / "datasets"
    left = list(parent.glob("wdsflow-map-*"))
    if how == signal.SIGINT:
        assert b"KeyboardInterrupt" in told
        assert left == []
    else:
        assert len(left) == 1
        mine = make_scratch(parent)
        assert list(parent.glob("wdsflow-map-*")) == [mine]
        other = make_scratch(parent)
        assert mine.exists()  # it is held
        remove_scratch(mine)
        remove_scratch(other)
        assert list(parent.glob("wdsflow-map-*")) == []


def test_a_fork_that_ends_does_not_remove_the_results(tmp_path, monkeypatch):
    code = """
import os, sys
from wdsflow.shards.scratch import make_scratch
from pathlib import Path
folder = make_scratch(Path(sys.argv[1]))
if os.fork() == 0:
    sys.exit()
os.wait()
print(folder.exists())
"""
    line = [sys.executable, "-c", code, str(tmp_path)]
    assert subprocess.run(line, capture_output=True, check=True, cwd=ROOT).stdout == b"True\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.deep
def test_a_row_is_not_to_blame_for_the_first_death_of_its_worker(tmp_path):
    def fn(numbers):
        mark = tmp_path / f"killed-{numbers[0]}"
        if numbers[0] % 7 == 0 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return numbers

    assert list(wdsflow.bounded_map(range(40), fn, MEMORY, 1, batch_size=3)) == list(range(40))
    assert (tmp_path / "killed-0").exists()  # the first batch has one row


@pytest.mark.deep
def test_workers_killed_at_random_moments_cost_no_row(tmp_path):
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_dict({"id": list(range(4000))})
    ended, before = threading.Event(), living_children()
    killed = []

    def kill():
        import random

        rng = random.Random(5)
        while not ended.wait(rng.uniform(0.05, 0.6)) and len(killed) < 4:
            workers = living_children(before)
            # The first batches are of one row, which would be to blame where it is killed twice.
            if workers and (tmp_path / "whole").exists():
                worker = rng.choice(workers)
                worker.kill()
                killed.append(worker.pid)

    def fn(batch):
        import time

        time.sleep(0.001 * len(batch["id"]))
        if len(batch["id"]) == 100:
            (tmp_path / "whole").touch()
        return {"twice": [number * 2 for number in batch["id"]]}

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        found = wdsflow.bounded_map(dataset, fn, MEMORY, 2, batch_size=100, folder=tmp_path / "out")
    finally:
        ended.set()
        thread.join()
    assert found["twice"][:] == [number * 2 for number in range(4000)]
    assert found["id"][:] == list(range(4000))
    assert killed


@pytest.mark.usefixtures("new_interpreters")
def test_workers_that_never_start_are_given_up(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(MappingError, match=r"no worker starts: .*exit status 1"):
        list(wdsflow.bounded_map([1], lambda numbers: numbers, MEMORY, 1))


def test_children_of_a_worker_that_dies_end_with_it_and_its_rows_are_tried_again(tmp_path):
    def fn(numbers):
        if 5 in numbers and not (tmp_path / "mark").exists():
            (tmp_path / "mark").touch()
            child = os.fork()
            if child == 0:
                os.setsid()
                time.sleep(600)
                os._exit(0)
            (tmp_path / "child").write_text(str(child))
            os.kill(os.getpid(), signal.SIGKILL)
        return numbers

    assert list(wdsflow.bounded_map(range(9), fn, MEMORY, 1)) == list(range(9))
    assert not psutil.pid_exists(int((tmp_path / "child").read_text()))


IGNORES = """
import os, signal
import wdsflow

signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def fn(numbers):
    if numbers[0] == 3 and not os.path.exists("mark"):
        open("mark", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return numbers


print(*wdsflow.bounded_map(range(9), fn, "2GiB", 1, batch_size=1))
"""


def test_a_program_that_ignores_the_ends_of_its_children_loses_no_row(tmp_path):
    (tmp_path / "program.py").write_text(IGNORES)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    line = [sys.executable, "program.py"]
    done = subprocess.run(
        line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "0 1 2 3 4 5 6 7 8\n", done.stderr
    assert (tmp_path / "mark").exists()


def test_a_worker_takes_no_module_from_the_folder_that_the_script_was_started_in(tmp_path):
    (tmp_path / "started").mkdir()
    (tmp_path / "program.py").write_text(
        "import wdsflow\nprint(*wdsflow.bounded_map([1, 2], list, '2GiB', 1))\n"
    )
    for name in ("select", "signal", "wdsflow"):
        (tmp_path / "started" / f"{name}.py").write_text("raise SystemExit(7)\n")
    line = [sys.executable, str(tmp_path / "program.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        line, cwd=tmp_path / "started", env=environment, capture_output=True, check=False
    )
    assert done.stdout == b"1 2\n", done.stderr


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG])
def test_a_full_disk_is_no_rows_fault(number):
    def fn(numbers):
        if 20 in numbers:
            raise OSError(number, os.strerror(number))
        return numbers

    found = wdsflow.bounded_map(range(50), fn, MEMORY, 1, "drop", batch_size=4)
    with pytest.raises(MappingError, match="the disk is full"):
        list(found)


def test_results_that_a_disk_does_not_take_end_the_run_and_leave_nothing(tmp_path):
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_dict({"id": list(range(600))})

    def fn(batch):
        return {"x": [bytes(10_000) for _ in batch["id"]]}

    with full_disk(500_000), pytest.raises((OSError, MappingError), match="File too large"):
        wdsflow.bounded_map(dataset, fn, MEMORY, 1, "drop", folder=tmp_path / "out")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


DISK = """
set -e
mount -t tmpfs -o size=3m none "$1/disk"
set +e
"$2" "$1/program.py" "$1/disk/out"
find "$1/disk" -type f
"""

FILLS = """
import sys, datasets, wdsflow
datasets.disable_progress_bars()
dataset = datasets.Dataset.from_dict({"id": list(range(600))})
wdsflow.bounded_map(
    dataset, lambda batch: {"x": [bytes(10_000) for _ in batch["id"]]}, "3GiB", 2, "drop", folder=sys.argv[1]
)
"""


@pytest.mark.deep
def test_a_disk_that_fills_up_ends_the_run_and_drops_no_row(tmp_path):
    pytest.importorskip("datasets")
    if (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("no disk of our own without user namespaces")
    (tmp_path / "disk").mkdir()
    (tmp_path / "program.py").write_text(FILLS)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HOME": str(tmp_path / "home")}
    line = ["unshare", "-rm", "sh", "-c", DISK, "sh", str(tmp_path), sys.executable]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    assert "No space left on device" in done.stderr
    assert done.stdout == ""  # no file is left


def test_a_killed_worker_reports_the_first_reason_and_one_that_had_ended_none() -> None:
    # Its work begins, and then it waits for a batch.
    setup = MapSetup(sys.path, pickle.dumps(SimpleNamespace(begin=list)))
    killed, ended = MapWorker(setup), MapWorker(setup)
    ended.close()

    killed.kill("it took more memory than is left")
    killed.kill("another reason")
    ended.kill("too late")

    assert killed.wait_for_failure() == Failed("memory", "it took more memory than is left")
    assert killed.close() < 0
    assert ended.kill_reason == ""
