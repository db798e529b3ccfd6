"""Sidecars: what they hold, when they are written again, and what is never replaced."""

import gzip
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.cli import shards
from tests.cli.commands import run
from tests.printed.pasted import commands, paste
from tests.shards.archives import folder, link, tar_bytes, write_tar
from wdsflow import index_shards
from wdsflow.indexing.index_options import KINDS


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """A folder with two shards of eight samples."""
    shards.with_txt(tmp_path)
    return tmp_path


def files(path: Path) -> dict[str, bytes]:
    """Return all files below a folder but shards and the record."""
    found = (each for each in path.rglob("*") if each.is_file() and each.suffix != ".tar")
    return {
        str(each.relative_to(path)): each.read_bytes()
        for each in found
        if ".wdsflow" not in each.parts
    }


def read(path: Path, name: str) -> Any:
    return json.loads((path / name).read_bytes())


def test_sizes_and_len_are_written_unless_others_are_asked_for(pair: Path) -> None:
    report = index_shards(str(pair))
    assert (report.samples, report.indexed, report.ok) == (16, 16, True)
    assert sorted(files(pair)) == ["__len__", "sizes.json"]
    assert read(pair, "sizes.json") == {"0000.tar": 8, "0001.tar": 8}
    assert (pair / "__len__").read_text() == "16\n"


@pytest.mark.parametrize(("kind", "other"), [("sizes", "len"), ("len", "sizes")])
def test_one_of_the_files_of_counts_does_not_contradict_the_other(pair: Path, kind, other) -> None:
    index_shards(str(pair))
    (pair / "0001.tar").unlink()
    report = index_shards(str(pair), [kind])
    assert (report.ok, len(report.written)) == (True, 2)
    assert read(pair, "sizes.json") == {"0000.tar": 8}
    assert (pair / "__len__").read_text() == "8\n"
    names = {"sizes": "sizes.json", "len": "__len__"}
    (pair / names[kind]).unlink()
    same = {"sizes": b'{"0000.tar":8}', "len": b"8"}[other]
    (pair / names[other]).write_bytes(same)
    assert index_shards(str(pair), [kind]).ok
    assert (pair / names[other]).read_bytes() == same
    (pair / names[other]).write_bytes(b"7")
    report = index_shards(str(pair), [kind])
    assert (report.ok, report.kept) == (False, [str(pair / names[other])])
    assert index_shards(str(pair), [kind], restart=True).ok
    assert read(pair, "sizes.json") == {"0000.tar": 8}
    assert (pair / "__len__").read_text() == "8\n"


def test_an_index_has_the_same_bytes_in_whatever_order_shards_are_read(
    pair: Path, monkeypatch
) -> None:
    for number in range(2, 6):
        write_tar(
            pair / f"{number:04d}.tar",
            [(f"{number}{n}.{kind}", b"1") for n in range(40) for kind in ("jpg", "txt")],
        )
    write_tar(pair / "0003.tar", [("cut.jpg", bytes(5000))])
    # It has no place in the index.
    (pair / "0003.tar").write_bytes((pair / "0003.tar").read_bytes()[:2000])

    def backwards(work: Any, do: Any, note: Any, jobs: int, begin: Any) -> None:
        done = [(job, do(job, Event())) for job in work]
        for job, result in [*done[2::2], *reversed(done[1::2]), *done[:1]]:
            note(job, result)

    assert index_shards(str(pair), KINDS, jobs=1).refused
    once = files(pair)
    shutil.rmtree(pair / ".wdsflow")
    for name in once:
        (pair / name).unlink()
    monkeypatch.setattr("wdsflow.indexing.folder_index.run_in_threads", backwards)
    assert index_shards(str(pair), KINDS).refused
    assert files(pair) == once
    assert len(once[".nv-meta/index.sqlite"]) > 40_000


def test_offsets_are_those_of_tarfile(pair: Path) -> None:
    entries = [
        (f"{'long/' * 50}{n}.{kind}", bytes(n + 1))
        for n in range(3)
        for kind in ("JPG", "seg.png", "json")
    ]
    extra: list[Any] = [
        folder("d"),
        link("l", "x"),
        ("README", b"no field"),
        ("__meta__/x.txt", b"no sample"),
    ]
    write_tar(pair / "0002.tar", [*extra, *entries, folder("e")], tarfile.PAX_FORMAT)
    assert index_shards(str(pair), KINDS).ok
    with tarfile.open(pair / "0002.tar") as tar:
        members = {each.name: each for each in tar if each.name.startswith("long")}
        end = tar.offset
    starts = [members[entries[at][0]].offset for at in (0, 3, 6)]
    packed = (pair / "0002.tar.idx").read_bytes()
    assert list(struct.unpack(f"<{len(packed) // 8}Q", packed)) == [*starts, end]


def test_the_report_names_the_files_that_were_written(pair: Path) -> None:
    report = index_shards(str(pair), [kind for kind in KINDS if kind != "energon"])
    assert sorted(report.written) == sorted(str(pair / name) for name in files(pair))
    assert f"{len(files(pair))} files written: " in str(report)
    (pair / "_info.json").unlink()
    again = index_shards(str(pair), ["timm"])
    assert again.written == [str(pair / "_info.json")]


def test_the_same_command_again_reads_and_writes_nothing(pair: Path) -> None:
    index_shards(str(pair), KINDS)
    before = {name: (pair / name).stat().st_mtime_ns for name in files(pair)}
    report = index_shards(str(pair), KINDS)
    assert str(report).splitlines()[-1].startswith("0 files written; ")
    assert (report.resumed, report.written, report.ok) == (2, [], True)
    assert {name: (pair / name).stat().st_mtime_ns for name in files(pair)} == before


def test_only_what_changed_is_indexed_again(pair: Path) -> None:
    index_shards(str(pair), KINDS)
    shards.write(pair / "0001.tar", {"a.jpg": shards.jpeg(), "a.txt": b"another"})
    report = index_shards(str(pair), [kind for kind in KINDS if kind != "energon"])
    assert (report.resumed, report.samples) == (1, 9)
    assert read(pair, "sizes.json") == {"0000.tar": 8, "0001.tar": 1}
    fresh = pair.parent / "fresh"
    fresh.mkdir()
    for name in ("0000.tar", "0001.tar"):
        os.link(pair / name, fresh / name)
    index_shards(str(pair), KINDS)
    index_shards(str(fresh), KINDS)
    assert {
        name: data
        for name, data in files(pair).items()
        if "sqlite" not in name and "uuid" not in name
    } == {
        name: data
        for name, data in files(fresh).items()
        if "sqlite" not in name and "uuid" not in name
    }


def test_a_sidecar_that_is_gone_or_changed_is_made_again(
    pair: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index_shards(str(pair), KINDS)
    before = files(pair)
    (pair / "0000.tar.idx").unlink()
    (pair / "sizes.json").unlink()
    (pair / "0001.tar.idx").write_bytes(b"changed")
    assert run("index", pair, *(f"--{kind}" for kind in KINDS)) == 1  # something else changed it
    printed = capsys.readouterr().out
    assert f"kept: {pair}/0001.tar.idx" in printed
    (command,) = commands(printed)
    assert paste(command, pair).status == 0
    assert {name: data for name, data in files(pair).items() if "sqlite" not in name} == {
        name: data for name, data in before.items() if "sqlite" not in name
    }


def test_files_of_a_shard_that_is_gone_are_removed_unless_they_were_changed(
    pair: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = [f"--{kind}" for kind in KINDS]
    shards.write(pair / "0002.tar", {"x.jpg": shards.jpeg(), "x.txt": b"x"})
    assert run("index", pair, *kinds) == 0
    for name in ("0001", "0002"):
        (pair / f"{name}.tar").unlink()
    (pair / "0002.tar.idx").write_text("mine")
    (pair / "0001.txt").write_text("mine")
    capsys.readouterr()
    assert run("index", pair, *kinds) == 0
    assert f"1 file of shards that are gone removed: {pair}/0001.tar.idx" in capsys.readouterr().out
    left = {"0000.tar.idx", "0001.txt", "0002.tar.idx"}
    assert {name for name in files(pair) if name.startswith("000")} == left


def test_files_of_a_shard_that_is_not_given_stay(pair: Path) -> None:
    index_shards(str(pair), ["energon"])
    assert index_shards(str(pair / "0000.tar"), ["energon"], restart=True).removed == []
    assert (pair / "0001.tar.idx").exists()


def test_a_shard_may_be_named_twice(pair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pair)
    report = index_shards(["0000.tar", "./0000.tar", str(pair / "0000.tar")], ["energon"])
    assert (report.shards, report.samples) == (1, 8)


def test_files_of_others_are_kept_unless_they_are_the_same(pair: Path) -> None:
    (pair / "sizes.json").write_text('{"0000.tar": 7}')
    (pair / "__len__").write_text("16\n")
    report = index_shards(str(pair))
    assert not report.ok
    assert [Path(path).name for path in report.kept] == ["sizes.json"]
    assert (report.same, report.written) == (1, [])
    assert (pair / "sizes.json").read_text() == '{"0000.tar": 7}'
    assert index_shards(str(pair), restart=True).ok
    assert read(pair, "sizes.json") == {"0000.tar": 8, "0001.tar": 8}


def test_a_damaged_shard_is_not_indexed_and_the_others_are(
    pair: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (pair / "0001.tar").read_bytes()
    (pair / "0001.tar").write_bytes(whole[:3000])
    assert run("index", pair, *(f"--{kind}" for kind in KINDS)) == 1
    printed = capsys.readouterr().out
    assert f"not indexed: {pair}/0001.tar: at byte " in printed
    assert (
        "2 shards: 9 samples in = 8 indexed + 1 left out\n  left out: 1 x in damaged shards"
        in printed
    )
    assert read(pair, "sizes.json") == {"0000.tar": 8}
    assert sorted(files(pair)) == sorted(
        [
            ".nv-meta/" + name
            for name in (".info.json", "split.yaml", "dataset.yaml", "index.sqlite", "index.uuid")
        ]
        + ["0000.tar.idx", "__len__", "_info.json", "sizes.json"]
    )
    (repair,) = commands(printed)
    assert paste(repair, pair).status == 1  # what was cut is gone
    (pair / "0001.tar").write_bytes(whole)
    assert run("index", pair, *(f"--{kind}" for kind in KINDS)) == 0
    assert read(pair, "sizes.json") == {"0000.tar": 8, "0001.tar": 8}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>",
        tar_bytes([("a.jpg", b"1")])[:1024],  # cut at the border of a member, without an end mark
        tar_bytes([("a.jpg", b"1")]) + tar_bytes([("b.jpg", b"1")]),
        gzip.compress(tar_bytes([("a.jpg", os.urandom(5000))]))[:3000],
    ],
)
def test_what_is_no_whole_tar_cannot_be_indexed(
    tmp_path: Path, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.tar").write_bytes(data)
    assert run("index", tmp_path / "a.tar", *(f"--{kind}" for kind in KINDS)) == 2
    message = capsys.readouterr().err
    assert f"nothing could be indexed: {tmp_path}/a.tar" in message
    assert paste(commands(message)[0], tmp_path).status in (1, 2)
    shutil.rmtree(tmp_path / "repaired", ignore_errors=True)
    assert os.listdir(tmp_path) == ["a.tar"]
    assert run("index", tmp_path / "none/a.tar") == 2
    assert not (tmp_path / "none").exists()


def test_what_a_reader_cannot_read_is_not_written(tmp_path: Path) -> None:
    write_tar(tmp_path / "empty.tar", [])
    write_tar(tmp_path / "twice.tar", [("x.jpg", b"1"), ("y.jpg", b"1"), ("x.txt", b"1")])
    (tmp_path / "packed.tar.gz").write_bytes(gzip.compress(tar_bytes([("c.jpg", b"1")])))
    report = index_shards(str(tmp_path), KINDS)
    lacking = {(Path(path).name, why.partition(":")[0]) for path, why in report.lacking}
    assert ("packed.tar.tar.idx", "it is compressed (gz)") in lacking
    assert ("index.sqlite", "Energon takes no key twice") in lacking
    assert ("empty.tar.idx", "it has no samples, and such an index cannot be empty") in lacking
    assert not (tmp_path / ".nv-meta").exists()
    assert read(tmp_path, "sizes.json") == {"empty.tar": 0, "packed.tar.gz": 1, "twice.tar": 2}


def test_shards_that_cannot_be_read_are_named_and_more_than_twenty_counted(pair: Path) -> None:
    for number in range(2, 24):
        (pair / f"{number:04d}.tar").symlink_to("gone")
    report = index_shards(str(pair))
    assert (report.samples, report.ok) == (16, False)
    lines = [line for line in str(report).splitlines() if line.startswith("not indexed: ")]
    assert lines[19:] == [f"not indexed: {pair}/0021.tar: no such file", "not indexed: 2 more"]
    assert read(pair, "sizes.json") == {"0000.tar": 8, "0001.tar": 8}


def test_a_database_of_others_is_kept(pair: Path) -> None:
    (pair / ".nv-meta").mkdir()
    database = pair / ".nv-meta/index.sqlite"
    database.write_bytes(b"of somebody else")
    report = index_shards(str(pair), ["energon"])
    assert (report.ok, report.kept) == (False, [str(database)])
    assert database.read_bytes() == b"of somebody else"
    assert index_shards(str(pair), ["energon"], restart=True).ok
    assert database.read_bytes().startswith(b"SQLite format 3")


def test_training_does_without_the_database(pair: Path) -> None:
    index_shards(str(pair), ["energon"])
    with_database = files(pair)
    shutil.rmtree(pair / ".wdsflow")
    for name in with_database:
        (pair / name).unlink()
    report = index_shards(str(pair), ["energon"], database=False)
    assert report.ok
    del with_database[".nv-meta/index.sqlite"]
    assert files(pair) == with_database
    assert index_shards(str(pair), ["energon"], database=False).written == []
    assert index_shards(str(pair), ["energon"]).written == [str(pair / ".nv-meta/index.sqlite")]


def test_without_energon_there_is_no_database_to_leave_out(
    pair: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("index", str(pair), "--no-database") == 2
    assert "only --energon has a database" in capsys.readouterr().err


def test_a_database_of_other_shards_is_removed_if_none_is_made(pair: Path) -> None:
    database = pair / ".nv-meta/index.sqlite"
    index_shards(str(pair), ["energon"])
    assert index_shards(str(pair), ["energon"], database=False).removed == []
    assert database.exists()
    write_tar(pair / "0002.tar", [("z.jpg", b"1")])
    assert index_shards(str(pair), ["energon"], database=False).removed == [str(database)]
    assert not database.exists()
    database.write_bytes(b"of somebody else")
    (pair / "0002.tar").unlink()
    index_shards(str(pair), ["energon"], database=False)
    assert database.read_bytes() == b"of somebody else"


def test_rows_are_inserted_in_chunks_with_the_same_result(pair: Path, monkeypatch) -> None:
    index_shards(str(pair), ["energon"])
    once = (pair / ".nv-meta/index.sqlite").read_bytes()
    monkeypatch.setattr("wdsflow.indexing.sample_rows._CHUNK", 3)
    assert index_shards(str(pair), ["energon"], restart=True).ok
    assert (pair / ".nv-meta/index.sqlite").read_bytes() == once


def test_the_key_that_occurs_twice_is_named(tmp_path: Path) -> None:
    write_tar(tmp_path / "0.tar", [(f"{key}.jpg", b"1") for key in "abc"])
    write_tar(tmp_path / "1.tar", [(f"{key}.jpg", b"1") for key in "debf"])
    report = index_shards(str(tmp_path), ["energon"])
    assert [why for _, why in report.lacking] == ["Energon takes no key twice: b"]


def test_settings_of_the_user_stay(pair: Path) -> None:
    (pair / ".nv-meta").mkdir()
    (pair / ".nv-meta/split.yaml").write_text("split_parts: {train: [0000.tar]}\n")
    report = index_shards(str(pair), ["energon"])
    assert report.ok
    assert [Path(path).name for path in report.settings] == ["split.yaml"]
    assert f"kept: {pair}/.nv-meta/split.yaml: your own settings" in str(report).splitlines()
    assert (pair / ".nv-meta/split.yaml").read_text() == "split_parts: {train: [0000.tar]}\n"
    assert "CaptioningSample" in (pair / ".nv-meta/dataset.yaml").read_text()


def test_two_shards_never_share_a_file(tmp_path: Path) -> None:
    for name in ("a.tar", "a.TAR"):
        shards.write(tmp_path / name, {f"{name}.txt": b"1"})
    assert index_shards(str(tmp_path), ["sizes"]).ok
    with pytest.raises(ValueError, match=r"a\.tar\.idx"):
        index_shards(str(tmp_path), ["energon"])


@pytest.mark.parametrize("kind", ["timm", "energon"])
def test_files_about_all_shards_are_not_cut_to_a_part(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shards.with_txt(tmp_path)
    assert run("index", tmp_path, f"--{kind}") == 0
    capsys.readouterr()
    assert run("index", tmp_path / "0000.tar", f"--{kind}") == 2
    printed = capsys.readouterr().err
    assert "would no longer list 1 shard" in printed
    whole, part = commands(printed)
    assert paste(whole, tmp_path).status == 0
    assert paste(part, tmp_path).status == 0
    (tmp_path / "0000.tar").rename(tmp_path / "0002.tar")
    (tmp_path / "0001.tar").unlink()
    assert run("index", tmp_path, f"--{kind}") == 0  # those that are gone need no leave


def test_splits_are_told_by_the_names_of_shards(tmp_path: Path) -> None:
    for name in ("set-train-0.tar", "set-validation-0.tar"):
        shards.write(tmp_path / name, {"a.cls": b"1"})
    index_shards(str(tmp_path), ["timm"])
    splits = read(tmp_path, "_info.json")["splits"]
    assert {name: split["filenames"] for name, split in splits.items()} == {
        "train": ["set-train-0.tar"],
        "validation": ["set-validation-0.tar"],
    }


def test_files_can_go_to_another_folder(pair: Path, tmp_path: Path) -> None:
    assert run("index", f"{pair}/0000.tar", "-o", tmp_path / "out", "--sizes", "--timm") == 0
    assert sorted(files(tmp_path / "out")) == ["_info.json", "sizes.json"]
    assert files(pair) == {
        name: data for name, data in files(pair).items() if name.startswith("out/")
    }


def test_a_run_that_was_killed_is_resumed(pair: Path) -> None:
    """Killed after the first shard: its files are kept, and the next run makes the rest."""
    program = (
        "import os, sys, signal\n"
        "from wdsflow.indexing import index_shards\n"
        "end = lambda count: lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"index_shards({str(pair)!r}, {KINDS!r}, jobs=1, begin=end)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], check=False)
    assert ended.returncode == -9
    report = index_shards(str(pair), [kind for kind in KINDS if kind != "energon"])
    assert report.resumed == 1
    assert index_shards(str(pair), KINDS).ok
    assert not list(pair.rglob("*.tmp"))


def test_a_full_disk_is_named(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)), resource.RLIM_INFINITY))\n"
        "from wdsflow.cli.main import main\n"
        "main(sys.argv[1:])\n"
    )
    for room, name in ((1500, "index.sqlite"), (100, "index.json")):
        command = [sys.executable, "-c", program, str(room), "index", str(pair), "--energon"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 2, ended
        assert "cannot write" in ended.stderr
        assert name in ended.stderr or room != 1500
        assert not list(pair.rglob("*.tmp"))
    assert index_shards(str(pair), KINDS).ok


def test_a_key_that_occurs_twice_is_found_also_after_a_damaged_shard(
    pair: Path, monkeypatch
) -> None:
    """The samples of later shards wait for the damaged one, and are added when it is left out."""
    (pair / "0000.tar").write_bytes((pair / "0000.tar").read_bytes()[:3000])
    write_tar(pair / "0002.tar", [("x.jpg", b"1"), ("y.jpg", b"1"), ("x.txt", b"1")])

    def backwards(work: Any, do: Any, note: Any, jobs: int, begin: Any) -> None:
        for job in reversed(work):
            note(job, do(job, Event()))

    monkeypatch.setattr("wdsflow.indexing.folder_index.run_in_threads", backwards)
    report = index_shards(str(pair), ["energon"])
    assert [why for _, why in report.lacking] == ["Energon takes no key twice: x"]
    assert not (pair / ".nv-meta").exists()
