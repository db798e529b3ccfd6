"""Reshards that are killed at any moment, or meet a full disk, can be rerun.

The same command again ends with the same bytes.

``WDSFLOW_KILLS=100`` kills more often.
"""

import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.filtering.shards import digests
from tests.killed import killed_again_and_again
from tests.reshaping.sets import Samples, in_folder, members, write_set
from tests.reshaping.test_reshard_hostile import packed_set
from wdsflow.reshaping.reshard.run_reshard import reshard_shards
from wdsflow.shards.source.base import SourceChangedError

MODULES = [
    "wdsflow.reshaping.reshard.run_reshard",
    "wdsflow.reshaping.reshard.write_output",
    "xxhash",
]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"samples": 4}, marks=pytest.mark.deep),
        {"samples": 4, "shuffle": 1, "split": "train=0.8,val=0.2"},
    ],
)
def test_a_reshard_killed_again_and_again_ends_with_the_same_bytes(tmp_path: Path, options):
    source, out = packed_set(tmp_path / "in"), tmp_path / "out"
    killed_again_and_again(partial(reshard_shards, source, out, **options), out, MODULES)


def test_an_input_that_changes_after_it_was_copied_ends_the_run(tmp_path: Path):
    source = packed_set(tmp_path / "in")
    first = min((tmp_path / "in").glob("*.tar"))
    left = 0

    def begin(shards: int) -> Callable[[object], None]:
        nonlocal left
        left = shards
        return change_after_the_last

    def change_after_the_last(_: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            first.write_bytes(first.read_bytes() + bytes(512))

    with pytest.raises(SourceChangedError, match=first.name):
        reshard_shards(source, tmp_path / "out", samples=10, jobs=1, begin=begin)


@pytest.mark.deep
def test_finished_shards_are_kept_and_half_ones_written_again(tmp_path: Path):
    source, out = packed_set(tmp_path / "in"), tmp_path / "out"
    reshard_shards(source, out, samples=10, shuffle=0)
    whole = digests(out)
    record = out / ".wdsflow/reshard.jsonl"
    lines = record.read_bytes().splitlines(keepends=True)
    record.write_bytes(b"".join(lines[:6]) + lines[6][:50])
    (out / "00009.tar").unlink()
    (out / "00009.tar.0a1b2c3d.wdsflow.tmp").write_bytes(b"half of it")
    (out / "00003.tar").write_bytes(b"changed")
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("*.tar")}
    report = reshard_shards(source, out, samples=10, shuffle=0)
    assert (report.resumed, report.stale_removed) == (5, 1)
    assert len(report.changed) == 1
    assert "00003.tar was changed since it was written" in report.changed[0]
    assert digests(out) == whole
    kept = {
        path.name for path in out.glob("*.tar") if path.stat().st_mtime_ns == before.get(path.name)
    }
    assert kept == {f"0000{number}.tar" for number in (0, 1, 2, 4, 5)}


@pytest.mark.deep
@pytest.mark.parametrize("order", [[], pytest.param(["--shuffle", "1"], marks=pytest.mark.deep)])
def test_a_full_disk_ends_with_status_2_in_two_lines_and_leaves_no_part_of_a_shard(
    tmp_path: Path, order
):
    source, out = packed_set(tmp_path / "in"), tmp_path / "out"
    # Bytes of a file: the system says that there is no space beyond.
    limit = 90_000 if order else 60_000

    def no_space() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    words = [
        sys.executable,
        "-m",
        "wdsflow",
        "reshard",
        source,
        "-o",
        str(out),
        "--shards",
        "2",
        *order,
    ]
    done = subprocess.run(words, preexec_fn=no_space, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first.startswith("wdsflow: cannot write ")
    assert first.endswith("File too large")
    assert second == "  free space there: finished shards are kept, and the same command resumes"
    assert not [path for path in out.rglob("*") if path.suffix == ".tmp"]
    assert not list(out.glob("*.tar"))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    assert members(in_folder(out)) == members(in_folder_of_packed(tmp_path))


def in_folder_of_packed(folder: Path) -> list[Samples]:
    return in_folder(write_set(folder / "plain"))


@pytest.mark.sample(1)
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_copies_of_packed_inputs_go_however_a_run_ends(tmp_path: Path, monkeypatch, error):
    source, out = packed_set(tmp_path / "in"), tmp_path / "out"
    out.mkdir()
    (out / "00001.tar").write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="no reshard wrote it"):
        reshard_shards(source, out, shuffle=1)
    assert [path.name for path in out.rglob("*")] == ["00001.tar"]
    (out / "00001.tar").unlink()
    seen: list[str] = []

    def fails(*_: object) -> None:
        seen.extend(path.name for path in (out / ".wdsflow/reshard-scratch/copies").iterdir())
        raise error

    monkeypatch.setattr("wdsflow.reshaping.reshard.run_reshard.write_output", fails)
    with pytest.raises(error):
        reshard_shards(source, out, shuffle=1)
    monkeypatch.undo()
    assert {"1.tar", "3.tar"} <= set(seen)
    assert list(out.rglob("*")) == []
    reshard_shards(source, out, shuffle=1)
    assert sorted(path.name for path in (out / ".wdsflow").iterdir()) == [
        "reshard.json",
        "reshard.jsonl",
    ]


def test_two_reshards_do_not_work_in_one_folder_at_once(tmp_path: Path):
    from wdsflow.records.folder_lock import Busy, Lock

    source = packed_set(tmp_path / "in")
    (tmp_path / "out/.wdsflow").mkdir(parents=True)
    with Lock(tmp_path / "out/.wdsflow/lock"), pytest.raises(Busy, match="another run works in"):
        reshard_shards(source, tmp_path / "out", split="train=0.9")
