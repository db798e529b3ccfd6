"""Packing large tables with several processes.

Output, errors and the way a run ends are the same as with one process.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import psutil
import pytest

from tests.filtering.shards import digests
from tests.packing.tables import jpeg, usual_rows, write_images, write_lines
from wdsflow import pack_shards
from wdsflow.records.folder_lock import Busy
from wdsflow.shards.source.base import SourceError

# They find processes by what these have started.
pytestmark = pytest.mark.usefixtures("new_interpreters")

ROWS = 2_400
OPTIONS = {"samples": 60, "jobs": 3}

# Two processes, each with its keeper. On a busy machine the second may not have begun when the last
# shard is done.
MOST_PROCESSES = 4


@pytest.fixture
def table(tmp_path: Path, monkeypatch) -> str:
    """A table of many rows, of which some are left out in each pass; three cores."""
    monkeypatch.setattr("wdsflow.packing.pack_workers.usable_cores", lambda: 3)
    rows = usual_rows(write_images(tmp_path, 40) * (ROWS // 40))
    (tmp_path / "img/7.jpg").write_bytes(b"<html>")
    (tmp_path / "img/8.jpg").unlink()
    return write_lines(tmp_path / "t.jsonl", rows)


class Watch:
    """Counts finished shards, and the processes that run meanwhile.

    ``act`` is called after the first shard.
    """

    def __init__(self, act=lambda watch: None) -> None:
        self.before = set(psutil.Process().children(recursive=True))
        self.seen: set[psutil.Process] = set()
        self.done = 0
        self._act = act

    def begin(self, shards: int):
        assert shards == -(-ROWS * 39 // 40 // OPTIONS["samples"])
        return self.step

    def step(self, _: object) -> None:
        self.seen |= self.running()
        self.done += 1
        if self.done == 1:
            self._act(self)

    def running(self) -> set[psutil.Process]:
        return set(psutil.Process().children(recursive=True)) - self.before


def test_processes_write_the_same_bytes_and_end(table: str, tmp_path: Path):
    watch = Watch()
    report = pack_shards(table, tmp_path / "many", begin=watch.begin, **OPTIONS)
    assert 2 <= len(watch.seen) <= MOST_PROCESSES
    assert watch.running() == set()
    one = Watch()
    alone = pack_shards(table, tmp_path / "one", begin=one.begin, samples=60, jobs=1)
    assert one.seen == set()
    assert digests(tmp_path / "many") == digests(tmp_path / "one")
    assert (report.rows, report.samples) == (alone.rows, alone.samples) == (ROWS, ROWS * 38 // 40)
    assert report.left_out == alone.left_out
    assert report.examples == alone.examples


def test_a_dry_run_of_many_rows_reports_what_would_be_written(table: str, tmp_path: Path):
    watch = Watch()
    dry = pack_shards(table, tmp_path / "out", begin=watch.begin, dry_run=True, **OPTIONS)
    report = pack_shards(table, tmp_path / "out", **OPTIONS)
    assert 2 <= len(watch.seen) <= MOST_PROCESSES
    assert (dry.samples, dry.left_out, dry.total("bytes")) == (
        report.samples,
        report.left_out,
        report.total("bytes"),
    )


def test_a_process_that_is_killed_is_replaced(table: str, tmp_path: Path):
    def kill_one(watch: Watch) -> None:
        children = sorted(watch.running(), key=lambda process: process.pid)
        children[-1].kill()

    watch = Watch(kill_one)
    pack_shards(table, tmp_path / "many", begin=watch.begin, **OPTIONS)
    pack_shards(table, tmp_path / "one", samples=60, jobs=1)
    assert digests(tmp_path / "many") == digests(tmp_path / "one")
    assert watch.running() == set()


def test_a_file_that_changes_ends_the_run_and_its_processes(table: str, tmp_path: Path):
    watch = Watch(lambda _: (tmp_path / "img/3.jpg").write_bytes(jpeg(1000)))
    with pytest.raises(
        SourceError, match=r"it changed while it was read: .*img/3\.jpg: pack it again"
    ):
        pack_shards(table, tmp_path / "out", begin=watch.begin, **OPTIONS)
    assert watch.running() == set()
    assert not list(tmp_path.glob("out/*.tmp"))
    report = pack_shards(table, tmp_path / "out", **OPTIONS)
    assert report.samples == ROWS * 38 // 40


class InterruptInAShard(Watch):
    """Raises KeyboardInterrupt while a process is certainly writing a shard.

    If that is never seen, it raises after many shards.
    """

    def step(self, _: object) -> None:
        self.done += 1
        for process in self.running():
            # It cannot end its shard meanwhile.
            process.suspend()
            if any(file.path.endswith(".tmp") for file in process.open_files()):
                raise KeyboardInterrupt
            process.resume()
        if self.done == ROWS // OPTIONS["samples"] // 2:
            raise KeyboardInterrupt


def test_ctrl_c_ends_the_processes_and_leaves_whole_shards_only(table: str, tmp_path: Path):
    watch = InterruptInAShard()
    with pytest.raises(KeyboardInterrupt):
        pack_shards(table, tmp_path / "out", begin=watch.begin, **OPTIONS)
    assert watch.running() == set()
    assert not list(tmp_path.glob("out/*.tmp"))
    pack_shards(table, tmp_path / "fresh", **OPTIONS)
    for path in tmp_path.glob("out/*.tar"):
        assert path.read_bytes() == (tmp_path / "fresh" / path.name).read_bytes()
    again = pack_shards(table, tmp_path / "out", **OPTIONS)
    assert again.resumed >= 1
    assert digests(tmp_path / "out") == digests(tmp_path / "fresh")


# Stops itself after a shard is finished, once a worker and its keeper run.
STOPPED_INSIDE = """
import os, psutil, signal, sys
import wdsflow
import wdsflow.packing.pack_workers as workers

def begin(_):
    return stop_once_others_work

def stop_once_others_work(_):
    if len(psutil.Process().children(recursive=True)) >= 2:
        os.kill(os.getpid(), signal.SIGSTOP)

workers.usable_cores = lambda: 2
wdsflow.pack_shards(sys.argv[1], sys.argv[2], samples=5, jobs=2, begin=begin)
"""


def test_after_kill_9_no_run_begins_before_the_processes_have_ended(table: str, tmp_path: Path):
    out = tmp_path / "out"
    run = subprocess.Popen([sys.executable, "-c", STOPPED_INSIDE, table, str(out)])
    writing = psutil.Process(run.pid)
    while writing.status() != psutil.STATUS_STOPPED:
        assert run.poll() is None
        time.sleep(0.01)
    children = writing.children(recursive=True)
    for child in children:
        child.suspend()
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    try:
        with pytest.raises(Busy, match="another run works in"):
            pack_shards(table, out, samples=5, jobs=2)
    finally:
        for child in children:
            # A keeper that goes on ends the process it keeps, which may be the next one here.
            with contextlib.suppress(psutil.NoSuchProcess):
                child.resume()
    report = pack_shards(table, out, samples=5, jobs=2)
    assert report.resumed >= 1
    pack_shards(table, tmp_path / "fresh", samples=5, jobs=1)
    assert digests(out) == digests(tmp_path / "fresh")


def test_files_of_a_zip_are_read_in_this_process(table: str, tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as archive:
        for path in sorted(tmp_path.glob("img/*.jpg")):
            archive.write(path, f"img/{path.name}")
    watch = Watch()
    report = pack_shards(
        table, tmp_path / "out", begin=watch.begin, root=str(tmp_path / "images.zip"), **OPTIONS
    )
    assert watch.seen == set()
    assert report.samples == ROWS * 38 // 40


def test_images_in_cells_are_read_by_processes_too(table: str, tmp_path: Path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [json.loads(line) for line in Path(table).read_text().splitlines()]
    images = [jpeg(number) for number, _ in enumerate(rows)]
    columns = {"image": images, "caption": [row["caption"] for row in rows]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    watch = Watch()
    watch.begin = lambda _: watch.step
    pack_shards(str(tmp_path / "t.parquet"), tmp_path / "many", begin=watch.begin, **OPTIONS)
    pack_shards(str(tmp_path / "t.parquet"), tmp_path / "one", samples=60, jobs=1)
    assert 2 <= len(watch.seen) <= MOST_PROCESSES
    assert digests(tmp_path / "many") == digests(tmp_path / "one")
