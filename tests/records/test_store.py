"""Outputs in an object store: killed at each change and resumed, they equal a local run.

Also tests the lock.
"""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("fsspec")

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

from tests.filtering.shards import write_shards
from wdsflow import Recipe, RunOptions, filter_shards, repair_shards
from wdsflow.records.folder_lock import Busy
from wdsflow.records.object_store import store_lock
from wdsflow.records.object_store.store import Store
from wdsflow.records.object_store.store_lock import StoreLock
from wdsflow.records.object_store.store_objects import StoreError
from wdsflow.records.process_identity import start_identity
from wdsflow.records.working_folder import working_folder
from wdsflow.repair import OtherOptions
from wdsflow.reshaping.reshard import reshard_shards
from wdsflow.shards.shard_identity import fingerprint

OUT = "memory://bucket/out"
LOCK = "/bucket/out/.wdsflow/lock"
CHANGES = ("put_file", "pipe_file", "rm_file", "cp_file")


class Killed(BaseException):
    """The process ends here: nothing more reaches the store."""


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    monkeypatch.setattr(MemoryFileSystem, "store", {})
    monkeypatch.setattr(MemoryFileSystem, "pseudo_dirs", [""])
    return fsspec.filesystem("memory")


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder, 2, 4)
    return folder


def tree(folder):
    """Return the bytes of all files of a local folder."""
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def objects(memory):
    """Return the bytes of all objects."""
    return {
        name.removeprefix("/bucket/out/"): memory.cat_file(name)
        for name in memory.find("/bucket/out")
    }


@contextlib.contextmanager
def killed_at(number):
    """Let the store accept ``number`` changes, then kill the run at the next one.

    Changes of the lock do not count.
    """
    done = itertools.count()

    def counted(change):
        def wrapped(self, *args, **named):
            if args[0] != LOCK and LOCK not in args[1:2] and next(done) >= number:
                raise Killed
            return change(self, *args, **named)

        return wrapped

    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGES:
            patch.setattr(MemoryFileSystem, name, counted(getattr(MemoryFileSystem, name)))
        yield


def each_kill(memory, begin, run):
    """Kill a run at each of its changes, resume it, and yield the objects.

    Each run begins with what ``begin`` has written.
    """
    for number in itertools.count():
        memory.store.clear()
        begin(OUT)
        try:
            with killed_at(number):
                run(OUT)
            assert number > 10
            return
        except Killed:
            pass
        memory.store.pop(LOCK, None)
        run(OUT)
        yield objects(memory)


def repaired(out, shards, **options):
    repair_shards(str(shards), out, jobs=1, **options)


def filtered(out, shards, where, **options):
    filter_shards(str(shards), out, Recipe(where=where), RunOptions(jobs=0, **options))


def nothing(_):
    """Begin in an empty folder."""


@pytest.mark.deep
def test_a_repair_that_is_killed_at_any_change_of_the_store_is_resumed(memory, shards, tmp_path):
    repaired(tmp_path / "out", shards)
    for found in each_kill(memory, nothing, lambda out: repaired(out, shards)):
        assert found == tree(tmp_path / "out")


@pytest.mark.deep
def test_a_restart_with_other_options_that_is_killed_never_keeps_an_output_of_the_first(
    memory, shards, tmp_path
):
    repaired(tmp_path / "out", shards, drop_fields=["json"])

    def again(out):
        with contextlib.suppress(OtherOptions):  # after the kill, the outputs may be of either run
            repaired(out, shards, drop_fields=["json"])
            return
        repaired(out, shards, drop_fields=["json"], restart=True)

    for found in each_kill(memory, lambda out: repaired(out, shards), again):
        assert found == tree(tmp_path / "out")


@pytest.mark.deep
def test_a_reshard_into_folds_that_is_killed_is_resumed(memory, shards, tmp_path):
    reshard_shards(str(shards), tmp_path / "out", folds=2)
    for found in each_kill(memory, nothing, lambda out: reshard_shards(str(shards), out, folds=2)):
        assert found == tree(tmp_path / "out")


@pytest.mark.deep
@pytest.mark.parametrize(
    "where", ["caption_words >= 2", "not near_duplicate and caption_words >= 2"]
)
def test_a_filter_that_is_killed_is_resumed(memory, shards, tmp_path, where):
    filtered(tmp_path / "out", shards, where)
    for found in each_kill(memory, nothing, lambda out: filtered(out, shards, where)):
        assert found == tree(tmp_path / "out")


@pytest.mark.deep
def test_an_output_that_was_changed_in_the_store_is_written_again(memory, shards):
    repaired(OUT, shards)
    right = objects(memory)
    data = bytearray(right["00001.tar"])
    data[:100] = b"x" * 100
    memory.pipe_file("/bucket/out/00001.tar", bytes(data))
    memory.rm_file("/bucket/out/00000.tar")
    report = repair_shards(str(shards), OUT)
    assert report.resumed == 0
    assert "memory://bucket/out/00000.tar is missing" in report.changed[0]
    assert [line.output for line in report.shards] == [
        f"{OUT}/0000{number}.tar" for number in range(2)
    ]
    assert "00001.tar was changed since it was written" in report.changed[1]
    assert objects(memory) == right


def test_an_input_is_never_an_output(memory, shards):
    repaired(OUT, shards)
    before = objects(memory)
    with pytest.raises(FileExistsError, match=r"memory://bucket/out/00000.tar is an input"):
        repair_shards(f"{OUT}/", OUT)
    assert objects(memory) == before


def test_what_is_there_and_no_run_wrote_is_refused_and_stays(memory, shards):
    memory.pipe_file("/bucket/out/00001.tar", b"mine")
    with pytest.raises(FileExistsError, match=r"memory://bucket/out/00001.tar exists already"):
        repaired(OUT, shards)
    assert objects(memory) == {"00001.tar": b"mine"}


def test_a_stub_never_replaces_an_object(memory, tmp_path):
    memory.pipe_file("/bucket/out/a.tar", b"a" * 100_000)
    store = Store(OUT, tmp_path)
    with store:
        (tmp_path / "a.tar").rename(tmp_path / "b.tar")
        (tmp_path / "a.tar").symlink_to(tmp_path / "b.tar")
        with pytest.raises(RuntimeError, match="only the stub"):
            store.upload_output(
                tmp_path / ".wdsflow" / "x.jsonl", "b.tar", b"{}\n", [tmp_path / "b.tar"]
            )
        (tmp_path / "a.tar").unlink()
    assert objects(memory) == {"b.tar": b"a" * 100_000}


def test_an_uploaded_shard_takes_up_hardly_any_disk_and_is_the_same_to_the_record(memory, tmp_path):
    with Store(OUT, tmp_path) as store:
        path = tmp_path / "a.tar"
        path.write_bytes(os.urandom(4 << 20))
        before = fingerprint(str(path))
        store.upload_output(tmp_path / ".wdsflow" / "x.jsonl", "a.tar", b"{}\n", [path])
        assert os.stat(path).st_blocks * 512 <= 128 << 10
        assert fingerprint(str(path)) == before
        assert fingerprint(str(path))["size"] == 4 << 20


def test_names_of_objects_that_lead_out_of_the_folder_are_left_alone(
    memory, shards, tmp_path, monkeypatch
):
    found = {"/bucket/out/../../x.tar": {"size": 3}, "/bucket/out//y.tar": {"size": 3}}
    monkeypatch.setattr(MemoryFileSystem, "find", lambda *_, **__: found)
    with working_folder(OUT) as folder:
        assert tree(folder) == {}


def test_a_full_disk_names_the_working_folder_and_how_to_choose_another(memory):
    with pytest.raises(OSError, match="TMPDIR") as caught, working_folder(OUT) as folder:
        raise OSError(28, "No space left on device", str(folder / "a.tar"))
    assert caught.value.filename == str(folder / "a.tar")
    assert not folder.exists()


# The lock


def locked(memory, key="/lock"):
    return StoreLock(memory, key, OUT, lambda do: do())


def test_two_runs_in_one_place_are_kept_apart_and_the_message_says_who_works_there(memory):
    held = locked(memory)
    with pytest.raises(
        Busy,
        match=rf"another run works in {OUT} \(process {os.getpid()} on .*, since .*\); wait for it",
    ):
        locked(memory)
    held.close()
    assert not memory.exists("/lock")
    locked(memory).close()


def test_the_lock_of_a_killed_process_of_this_machine_is_taken_over_at_once(memory):
    process = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    process.stdout.readline()
    locked(memory).close(remove=False)
    found = json.loads(memory.cat_file("/lock"))
    found |= {"pid": process.pid, "process": start_identity(process.pid), "token": "other"}
    memory.pipe_file("/lock", json.dumps(found).encode())
    with pytest.raises(Busy):
        locked(memory)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    store_lock_of_ours = locked(memory)
    assert json.loads(memory.cat_file("/lock"))["pid"] == os.getpid()
    store_lock_of_ours.close()


def test_the_lock_of_another_machine_is_taken_over_when_it_is_not_written_any_more(
    memory, monkeypatch, caplog
):
    monkeypatch.setattr(store_lock, "STALE", 1.0)
    monkeypatch.setattr(store_lock, "TAKEOVER_WAIT", 0.0)
    other = {"host": "elsewhere", "pid": 1, "process": "x y 1", "since": "2026", "token": "other"}
    ended = threading.Event()

    def beat():
        for number in itertools.count():
            memory.pipe_file("/lock", json.dumps({**other, "beat": number}).encode())
            if ended.wait(0.05):
                return

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        while not memory.exists("/lock"):
            pass
        with pytest.raises(Busy, match="process 1 on elsewhere, since 2026"):
            locked(memory)
    finally:
        ended.set()
        thread.join()
    held = locked(memory)
    assert "waiting up to 1 s, as process 1 on elsewhere, since 2026 may still run" in caplog.text
    memory.pipe_file("/lock", json.dumps(other).encode())  # as a run does that takes over
    monkeypatch.setattr(held, "_written", 0.0)  # this one was stopped meanwhile
    with pytest.raises(Busy, match="another run took over"):
        held.check()
    held.close()
    assert json.loads(memory.cat_file("/lock")) == other


def test_a_store_that_takes_nothing_is_an_error_that_names_the_object(memory, shards, monkeypatch):
    def denied(*_, **__):
        raise PermissionError("read only")

    monkeypatch.setattr(MemoryFileSystem, "put_file", denied)
    with pytest.raises(StoreError) as caught:
        repaired(OUT, shards)
    assert (caught.value.strerror, caught.value.filename) == (
        "read only",
        f"{OUT}/.wdsflow/unfinished.json",
    )
    assert not memory.exists(LOCK)
