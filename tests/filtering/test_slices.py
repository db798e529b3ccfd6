"""The slices of a job array.

Shows the progress of each, what completes the run, and how all make one output.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.cli.commands import run
from tests.filtering.shards import digests, write_shards
from tests.filtering.test_interruptions import command
from wdsflow import Recipe, RunOptions, filter_shards, measure_shards
from wdsflow.filtering.merge_slices import NotDone, merge_slices
from wdsflow.records.object_store.store_lock import STALE
from wdsflow.records.read_status import NoRun, statuses
from wdsflow.records.run_state import StateFile, read_states
from wdsflow.records.run_status import RunStatus

HERE = RunOptions(jobs=0)
LARGE = Recipe(where="min_side >= 200")
WORDS = ("filter", "in", "-o", "out", "--where", "min_side >= 200", "--jobs", 0, "--shard-count", 3)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with five shards."""
    write_shards(tmp_path / "in", shards=5, samples=6)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def slice_of(index: int, count: int = 3, recipe: Recipe = LARGE, **more) -> None:
    filter_shards("in", "out", recipe, replace(HERE, index=index, count=count, **more))


def status() -> RunStatus:
    (found,) = statuses(Path("out"))
    return found


def printed_commands(text: str) -> list[list[str]]:
    return [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("  wdsflow ")]


def test_the_printed_commands_complete_the_output_of_one_run(folder: Path, capsys):
    filter_shards("in", "one", LARGE, HERE)
    assert run(*WORDS, "--shard-index", 1) == 0
    capsys.readouterr()
    assert run("status", "out") == 1
    told = capsys.readouterr().out
    assert told.startswith("filter: 2 of 5 shards done, in 1 of 3 slices; 12 samples, ")
    assert "slice 0: missing, 0 of 2 shards done" in told
    assert run("merge", "out") == 1
    refused = capsys.readouterr()
    assert "nothing was merged" in refused.err
    assert not Path("out/sizes.json").exists()
    commands = printed_commands(refused.out)
    assert commands == printed_commands(told)
    assert len(commands) == 2
    for words in commands:
        assert run(*words) == 0
    assert run("status", "out") == run("merge", "out") == run("merge", "out") == 0
    assert digests(Path("out")) == digests(Path("one"))
    assert not list(Path("out").rglob("state-*"))


def test_a_run_whose_last_slice_was_killed_at_its_end_is_merged(folder: Path, monkeypatch):
    filter_shards("in", "one", LARGE, HERE)
    with monkeypatch.context() as patch:
        patch.setattr("wdsflow.records.output_record.OutputRecord.finish", lambda *_: False)
        for index in range(3):
            slice_of(index)
    found = status()
    assert (found.is_done, found.merged) == (True, False)
    report = merge_slices(Path("out"))
    assert report.total("samples") == 30
    assert digests(Path("out")) == digests(Path("one"))
    assert status().merged


def test_outputs_that_changed_since_are_not_merged(folder: Path, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr("wdsflow.records.output_record.OutputRecord.finish", lambda *_: False)
        for index in range(3):
            assert run(*WORDS, "--shard-index", index) == 0
    capsys.readouterr()
    assert run("status", "out") == 1
    assert capsys.readouterr().out.splitlines()[1:] == ["next: wdsflow merge out"]
    Path("out/00003.tar").write_bytes(b"changed")
    assert run("merge", "out") == 1
    shown = capsys.readouterr()
    told = shown.out
    assert told.startswith(
        "out/00003.tar was changed since it was written\nto write them again:\n  w"
    )
    assert len(told.splitlines()) == 3
    (words,) = printed_commands(told)
    assert words[-1] == "0"
    assert run(*words) == 0
    assert run("merge", "out") == 0
    assert Path("out/sizes.json").exists()


def test_a_slice_that_works_is_seen_and_keeps_merge_out(folder: Path):
    slice_of(0, 2)
    seen: list[RunStatus] = []

    def begin(total: int, what: str) -> Callable[[object], None]:
        return lambda _: seen.append(status())

    slice_of(1, 2, begin=begin)
    first, second = seen[0].slices
    assert (first.phase, second.phase, second.shards, second.done) == ("done", "running", 2, 1)
    assert second.process.startswith(f"process {os.getpid()} on ")


def test_the_status_of_a_run_says_why_it_is_not_done_and_what_to_do(folder: Path, capsys):
    words = ("filter", "in", "-o", "out", "--where", "min_side >= 200", "--jobs", 0)
    whole = Path("in/00001.tar").read_bytes()
    Path("in/00001.tar").write_bytes(b"no tar" * 500)
    assert run(*words) == 1
    capsys.readouterr()
    assert run("status", "out") == 1
    counts, why, *rest = capsys.readouterr().out.splitlines()
    assert counts == "filter: 4 of 5 shards done; 24 samples, 8 kept"
    assert re.fullmatch(
        r"  failed, 4 of 5 shards done \(process \d+ on .*, since .*; not a tar: looks like text,"
        r" such as 00001\.tar\)",
        why,
    )
    again = "wdsflow filter in -o out --where 'min_side >= 200' --jobs 0"
    assert rest == ["to complete it:", f"  {again}"]
    Path("in/00001.tar").write_bytes(whole)
    assert run(*words) == 0
    capsys.readouterr()
    assert run("status", "out") == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["complete"]
    filter_shards("in", "other", LARGE, replace(HERE, index=0, count=2))
    assert run("status", "other") == 1
    assert capsys.readouterr().out.endswith("\nto complete it, run the same again\n")
    assert run("status", "in") == 2
    told = "no run of wdsflow has written to in\n  name the folder that a command got with -o"
    assert capsys.readouterr().err == f"wdsflow: {told}\n"


def test_a_slice_with_a_shard_that_cannot_be_read_has_failed_for_that_reason(folder: Path):
    whole = Path("in/00001.tar").read_bytes()
    Path("in/00001.tar").write_bytes(b"no tar" * 500)
    for index in range(3):
        slice_of(index)
    states = {each.index: each for each in status().slices}
    assert [states[index].phase for index in range(3)] == ["done", "failed", "done"]
    assert (states[1].done, states[1].shards) == (1, 2)
    assert "not a tar" in states[1].why
    assert "00001.tar" in states[1].why
    with pytest.raises(NotDone):
        merge_slices(Path("out"))
    Path("in/00001.tar").write_bytes(whole)
    slice_of(1)
    filter_shards("in", "one", LARGE, HERE)
    assert digests(Path("out")) == digests(Path("one"))


def killed(*words: object) -> int:
    """Start a command, kill it when it has recorded a shard; return its process."""
    line, environment = command(*words)
    process = subprocess.Popen(
        line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while process.poll() is None and not any(
        path.stat().st_size for path in Path("out").rglob("manifest*.jsonl")
    ):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return process.pid


@pytest.mark.deep
def test_a_killed_slice_is_dead_and_the_printed_command_resumes_it(folder: Path, capsys):
    for number in range(5, 200):
        os.link("in/00000.tar", f"in/{number:05d}.tar")
    pid = killed(*WORDS, "--shard-index", 2)
    found = status()
    dead = found.slices[2]
    assert dead.phase == "dead"
    assert dead.process.startswith(f"process {pid} on ")
    assert 0 < dead.done < dead.shards
    words = shlex.split(dead.command)[1:]
    assert run(*words) == 0
    assert status().slices[2].phase == "done"


@pytest.mark.deep
def test_a_run_without_slices_of_any_command_has_a_status(folder: Path, capsys):
    assert run("repair", "in", "-o", "out") == 0
    capsys.readouterr()
    assert run("status", "out", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["run"], found["complete"], found["shards"], found["samples"]) == (
        "repair",
        True,
        5,
        30,
    )
    assert run("status", "in") == 2
    with pytest.raises(NoRun):
        statuses(folder / "in")
    assert run("merge", "out") == 2


def test_slices_of_other_machines_live_while_they_beat(folder: Path):
    slice_of(0)
    path = StateFile(Path("out/.wdsflow"), "manifest", "filter", (1, 3)).path
    ((state, _),) = read_states(path.parent, "manifest")
    elsewhere = replace(
        state, index=1, ended="", process={**state.process, "host": "node7", "pid": 12}
    )
    path.write_text(json.dumps(asdict(elsewhere)))
    assert status().slices[1].phase == "running"
    assert "process 12 on node7" in status().slices[1].process
    os.utime(path, (0, time.time() - STALE - 5))
    assert status().slices[1].phase == "dead"


@pytest.mark.deep
def test_scores_that_are_added_in_slices_are_not_done_before_all_have_them(folder: Path):
    measure_shards("in", "one", Recipe(scores=("caption_words", "bytes")), HERE)
    for index in range(2):
        measure_shards(
            "in", "out", Recipe(scores=("caption_words",)), replace(HERE, index=index, count=2)
        )
    more = Recipe(scores=("bytes",))
    measure_shards("in", "out", more, replace(HERE, index=1, count=2))
    assert [each.phase for each in status().slices] == ["missing", "done"]
    measure_shards("in", "out", more, replace(HERE, index=0, count=2))
    assert status().merged
    merge_slices(Path("out"))
    cut = Recipe(where="caption_words > 2 and bytes > 1")
    filter_shards("in", "cut-one", cut, HERE, ledger="one")
    filter_shards("in", "cut", cut, HERE, ledger="out")
    tars = {
        name: digest for name, digest in digests(Path("cut-one")).items() if name.endswith(".tar")
    }
    assert tars.items() <= digests(Path("cut")).items()


@pytest.mark.deep
def test_slices_that_work_at_the_same_time_are_watched_killed_and_completed(folder: Path):
    for number in range(5, 90):
        os.link("in/00001.tar", f"in/{number:05d}.tar")
    filter_shards("in", "one", LARGE, HERE)
    line, environment = command(*WORDS, "--shard-index")
    running = [
        subprocess.Popen(
            [*line, str(index)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for index in range(3)
    ]
    phases, most = set[str](), 0
    while any(each.poll() is None for each in running):
        if not Path("out/.wdsflow/run.json").exists():
            continue
        found = status()
        phases |= {each.phase for each in found.slices}
        assert found.total("done") >= most  # what is recorded stays recorded
        most = found.total("done")
        if found.slices[0].done and running[0].poll() is None:
            running[0].kill()
    assert "running" in phases
    for each in status().slices:
        if each.phase != "done":
            assert run(*shlex.split(each.command)[1:]) == 0
    merge_slices(Path("out"))
    assert status().merged
    assert digests(Path("out")) == digests(Path("one"))


@pytest.mark.deep
def test_a_merge_that_is_killed_at_any_change_is_completed_by_the_next(folder: Path, monkeypatch):
    filter_shards("in", "one", LARGE, HERE)
    whole = digests(Path("one"))
    with monkeypatch.context() as patch:
        patch.setattr("wdsflow.records.output_record.OutputRecord.finish", lambda *_: False)
        for index in range(3):
            slice_of(index)
    os.rename("out", "slices")
    kill = (
        "import os, sys\nfrom pathlib import Path\nfrom wdsflow.filtering.merge_slices import merge_slices\n"
        "import pydantic, xxhash\nat, seen = int(sys.argv[1]), 0\n"
        "def see(name, arguments):\n"
        "    global seen\n"
        "    if name in ('os.rename', 'os.remove', 'os.mkdir', 'os.rmdir') and 'out' in str(arguments[0]):\n"
        "        seen += 1\n"
        "        if seen == at: os.kill(os.getpid(), 9)\n"
        "sys.addaudithook(see)\nmerge_slices(Path('out'))\n"
    )
    for at in range(1, 60):
        shutil.copytree("slices", "out")
        done = subprocess.run([sys.executable, "-c", kill, str(at)], check=False)
        merge_slices(Path("out"))
        assert digests(Path("out")) == whole, at
        shutil.rmtree("out")
        if done.returncode == 0:
            break
    assert done.returncode == 0
    assert at > 8
