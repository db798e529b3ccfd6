"""The progress of runs, as read from a folder or a store while they work and afterwards."""

import json
import shutil
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.cli.commands import run
from tests.filtering.shards import write_shards
from tests.packing.tables import usual_rows, write_images, write_lines
from wdsflow import Recipe, RunOptions, filter_shards, pack_shards, repair_shards
from wdsflow.packing.rows.pack_planner import PackPlanner
from wdsflow.records import read_status
from wdsflow.records.object_store.store_objects import StoreError
from wdsflow.records.read_status import NoRun, statuses
from wdsflow.records.run_status import RunStatus

STORE = "memory://bucket/out"
LOCK = "/bucket/out/.wdsflow/lock"


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with two shards in ``in``."""
    write_shards(tmp_path / "in", shards=2, samples=4)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> MemoryFileSystem:
    monkeypatch.setattr(MemoryFileSystem, "store", {})
    monkeypatch.setattr(MemoryFileSystem, "pseudo_dirs", [""])
    return fsspec.filesystem("memory")


def only(out: Path | str) -> RunStatus:
    (found,) = statuses(out)
    return found


def phase(out: Path | str) -> tuple[str, int, int]:
    """Return the phase of a run without slices, with its shards that are done, and all."""
    found = only(out)
    (part,) = found.slices
    return part.phase, part.done, part.shards


def test_the_status_of_a_run_in_a_store_is_read_while_it_works_and_afterwards(memory, shards):
    seen: list[tuple[str, int, int]] = []
    with pytest.raises(NoRun) as missing:
        statuses(STORE)
    assert str(missing.value) == f"no run of wdsflow has written to {STORE}"

    def begin(total: int, what: str) -> Any:
        return lambda _: seen.append(phase(STORE))

    options = RunOptions(jobs=0, begin=begin)
    filter_shards("in", STORE, Recipe(where="min_side >= 200"), options)
    assert seen == [("running", 1, 2), ("done", 2, 2)]
    assert phase(STORE) == ("done", 2, 2)
    before = dict(memory.store)
    assert only(STORE).summary == "filter: 2 of 2 shards done"
    assert memory.store == before


def test_a_run_in_a_store_works_as_long_as_its_lock_is_written(memory, shards, monkeypatch):
    put = MemoryFileSystem.put_file
    locks: list[dict[str, Any]] = []

    def denied(self: Any, path: str, key: str, **more: Any) -> None:
        if key.endswith("00001.tar"):
            locks.append(json.loads(memory.cat_file(LOCK)))
            raise PermissionError("read only")
        put(self, path, key, **more)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "put_file", denied)
        with pytest.raises(StoreError):
            repair_shards("in", STORE, jobs=1)
    (lock,) = locks
    assert phase(STORE) == ("dead", 1, 2)
    # Seen from another machine.
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    memory.pipe_file(LOCK, json.dumps(lock).encode())
    assert phase(STORE) == ("running", 1, 2)
    for other in ({"pid": 1}, {"host": "third"}, {"process": "boot start"}):
        memory.pipe_file(LOCK, json.dumps({**lock, **other}).encode())
        assert phase(STORE) == ("dead", 1, 2)
    memory.pipe_file(LOCK, json.dumps(lock).encode())
    monkeypatch.setattr(read_status, "STALE", 0.0)
    assert phase(STORE) == ("dead", 1, 2)
    memory.pipe_file(LOCK, b"{")
    assert phase(STORE) == ("dead", 1, 2)
    memory.rm_file(LOCK)
    repair_shards("in", STORE, jobs=1)
    assert phase(STORE) == ("done", 2, 2)


def test_a_run_that_still_reads_its_inputs_is_known_and_its_command_if_it_is_dead(
    shards, monkeypatch, capsys
):
    table = write_lines(Path("t.jsonl"), usual_rows(write_images(Path(), 3)))
    read = PackPlanner.read
    seen: list[RunStatus] = []

    def watched(self: PackPlanner) -> None:
        seen.append(only("out"))
        shutil.copytree("out", "dead")
        read(self)

    monkeypatch.setattr(PackPlanner, "read", watched)
    assert run("pack", table, "-o", "out") == 0
    (reading,) = seen
    assert reading.summary == "pack: no shard yet, it reads its inputs first"
    assert [part.phase for part in reading.slices] == ["running"]
    assert not reading.is_done
    capsys.readouterr()
    assert run("status", "dead") == 1
    assert capsys.readouterr().out.splitlines() == [
        "pack: no shard yet, it reads its inputs first",
        "  dead (it was killed while it read its inputs)",
        "to complete it:",
        f"  wdsflow pack {table} -o out",
    ]
    assert run("status", "dead", "--json") == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["complete"], found["shards"], found["done"], found["samples"]) == (False, 0, 0, 0)
    assert run("status", "out", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["complete"], found["shards"], found["done"], found["samples"]) == (True, 1, 1, 3)


def test_a_run_in_a_store_that_still_reads_its_inputs_is_dead_without_its_lock(
    memory, shards, monkeypatch
):
    table = write_lines(Path("t.jsonl"), usual_rows(write_images(Path(), 1)))
    read = PackPlanner.read
    stored: list[dict[str, Any]] = []

    def watched(self: PackPlanner) -> None:
        stored.append(dict(memory.store))
        read(self)

    monkeypatch.setattr(PackPlanner, "read", watched)
    pack_shards(table, STORE)
    memory.store.clear()
    memory.store.update(stored[0])
    lock = json.loads(memory.cat_file(LOCK))
    assert phase(STORE) == ("running", 0, 0)
    memory.pipe_file(LOCK, json.dumps({**lock, "process": f"{lock['process']}1"}).encode())
    assert phase(STORE) == ("dead", 0, 0)
    memory.rm_file(LOCK)
    assert phase(STORE) == ("dead", 0, 0)


def test_a_folder_without_a_run_and_one_with_a_damaged_record_are_refused(shards):
    with pytest.raises(NoRun) as missing:
        statuses("in")
    assert str(missing.value) == "no run of wdsflow has written to in"
    pack_shards(write_lines(Path("t.jsonl"), usual_rows(write_images(Path(), 1))), "out")
    path = Path("out/.wdsflow/pack.json")
    for text in ("{", "[]", "{}"):
        path.write_text(text)
        with pytest.raises(NoRun) as damaged:
            statuses("out")
        assert str(damaged.value) == f"{path} is damaged"
