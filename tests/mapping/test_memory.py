"""The bound holds for all processes together, as it is measured from outside."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import cast

import psutil
import pytest

from wdsflow.mapping.map_worker import MapWorker
from wdsflow.mapping.memory_watch import MemoryWatch

pytestmark = pytest.mark.usefixtures("new_interpreters")

ROOT = Path(__file__).resolve().parents[2]
CAP = 640 << 20
# 2.8 MB a row, 1 GB together: 1.6 times the cap, as datasets.map holds it all at once.
ROWS, SIDE = (
    360,
    480,
)

PROGRAM = """
import json, resource, sys
import numpy, datasets

datasets.disable_progress_bars()
rows, side, cap, which = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
dataset = datasets.Dataset.from_dict({"id": list(range(rows))})


def fn(batch):
    pixels = [numpy.full((3, side, side), number, numpy.float32) for number in batch["id"]]
    twice = [each * 2 for each in pixels]  # taken for a while only
    return {"pixels": [each / 2 for each in twice]}


if which == "map":
    resource.setrlimit(resource.RLIMIT_DATA, (3 * cap, 3 * cap))  # it must not take the machine down
    try:
        dataset.map(fn, batched=True)
    except MemoryError as error:
        print(json.dumps({"error": type(error).__name__}))
else:
    import wdsflow

    found = wdsflow.bounded_map(dataset, fn, cap, 2, folder=sys.argv[5])
    last = found.with_format("numpy")[rows - 1]["pixels"]
    print(json.dumps({"rows": len(found), "last": float(last.mean()), "shape": last.shape}))
"""


def shared_out(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next(
        (int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0
    )


def measured(tmp_path: Path, which: str) -> tuple[dict[str, object], int]:
    """Return what the program printed, and the most that it and its children took at a time."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [
        sys.executable,
        "program.py",
        str(ROWS),
        str(SIDE),
        str(CAP),
        which,
        str(tmp_path / "out"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HOME": str(tmp_path / "home")}
    most = 0
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE
    ) as process:
        family = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                most = max(
                    most,
                    sum(
                        shared_out(each.pid) for each in (family, *family.children(recursive=True))
                    ),
                )
            except psutil.NoSuchProcess:
                break
            time.sleep(0.01)
        printed = process.stdout.read().decode()
    return json.loads(printed.splitlines()[-1]), most


READER = """
import os, sys
import datasets, wdsflow
from wdsflow.memory.usage import pss_bytes

if os.fork() == 0:
    datasets.Dataset.from_dict({"x": [bytes(4 << 20)] * 75}).save_to_disk(sys.argv[1])
    os._exit(0)
os.wait()
dataset = datasets.load_from_disk(sys.argv[1])
mapped = sum(len(row["x"]) for row in dataset)
before = pss_bytes(os.getpid())
found = wdsflow.bounded_map(dataset, lambda batch: {"n": list(map(len, batch["x"]))}, before - mapped // 3, 1, remove_columns="x")
assert sum(found["n"]) == mapped
"""


@pytest.mark.deep
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pages can be let go of on Linux")
def test_what_the_caller_has_read_of_its_dataset_does_not_count(tmp_path):
    pytest.importorskip("datasets")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HOME": str(tmp_path / "home")}
    line = [sys.executable, "-c", READER, str(tmp_path / "saved")]
    done = subprocess.run(
        line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.deep
@pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(),
    reason="the system does not tell shared memory apart",
)
def test_pictures_that_map_cannot_hold_are_mapped_within_the_cap(tmp_path):
    result, ours = measured(tmp_path, "bounded_map")
    assert result == {"rows": ROWS, "last": ROWS - 1, "shape": [3, SIDE, SIDE]}
    assert ours <= CAP
    failed, theirs = measured(tmp_path, "map")
    assert failed == {"error": "MemoryError"}
    assert theirs > CAP


class Taking:
    """A worker that says what it takes, and notes that it is killed."""

    def __init__(self, takes: int, batch: object) -> None:
        self.pid, self.batch, self.kill_reason, self._takes = os.getpid(), batch, "", takes
        self.ended = threading.Event()

    def memory_in_use(self) -> int:
        return self._takes

    def kill(self, why: str) -> None:
        self.kill_reason = why
        self.ended.set()


def test_the_busy_worker_that_takes_most_is_killed_where_all_take_too_much() -> None:
    workers = [
        Taking(9 << 40, None),
        Taking(1 << 40, "a"),
        Taking(2 << 40, "b"),
        Taking(1 << 39, "c"),
    ]
    with contextlib.closing(MemoryWatch(1 << 20, lambda: cast("list[MapWorker]", workers))):
        # One that is killed takes its memory until it has ended.
        for worker in (
            workers[2],
            workers[1],
            workers[3],
        ):
            assert worker.ended.wait(60)
    assert [worker.kill_reason for worker in workers] == [
        "",
        *["it took more memory than is left of 1 MiB"] * 3,
    ]
    enough, looks = [Taking(1, "a")], threading.Semaphore(0)

    def look() -> list[MapWorker]:
        looks.release()
        return cast("list[MapWorker]", enough)

    with contextlib.closing(MemoryWatch(1 << 50, look)):
        for _ in range(3):
            looks.acquire()
    assert not enough[0].kill_reason
