"""From index --checksums to validate --manifest: the same shards, and every way in which they are not."""

import json
import os
import resource
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from tests.cli import shards
from tests.cli.test_verify import flip, run
from tests.printed.pasted import commands, paste
from wdsflow.indexing import index_shards
from wdsflow.shards.certificate import load


@pytest.fixture
def hashed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder with two shards and their manifest."""
    shards.with_txt(tmp_path)
    assert run("index", tmp_path, "--checksums") == 0
    (command,) = commands(capsys.readouterr().out)
    assert paste(command, tmp_path).status == 0
    return tmp_path


def test_a_manifest_has_hash_size_samples_and_fields_of_each_shard(hashed: Path) -> None:
    manifest = load(hashed / "checksums.json")
    assert manifest.kind == "manifest"
    for name in ("0000.tar", "0001.tar"):
        data = (hashed / name).read_bytes()
        assert manifest.shards[name][:2] == (len(data), sha256(data).digest())
        assert manifest.contents[name] == (8, {"jpg": 8, "txt": 8})
    assert (manifest.facts["samples"], manifest.whole, manifest.folder) == (16, True, "./")


def test_the_same_shards_have_the_same_manifest(hashed: Path) -> None:
    before = (hashed / "checksums.json").read_bytes()
    assert index_shards(str(hashed), ["checksums"]).written == []
    assert index_shards(str(hashed), ["checksums"], force=True).ok
    assert (hashed / "checksums.json").read_bytes() == before


def test_it_can_be_moved_with_its_shards(hashed: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    there = tmp_path_factory.mktemp("moved") / "set"
    shutil.copytree(hashed, there)
    assert run("validate", "--manifest", there / "checksums.json") == 0
    assert run("verify", there / "checksums.json", "--full") == 0


def test_a_byte_that_changed_behind_the_clock_is_found_at_level_full(
    hashed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(hashed / "0001.tar", 5000)
    assert run("validate", hashed, "--manifest", hashed / "checksums.json") == 0
    printed = capsys.readouterr().out
    assert run("validate", hashed, "--manifest", hashed / "checksums.json", "--level", "full") == 1
    assert "changed    0001.tar: other contents" in capsys.readouterr().out
    assert paste(commands(printed)[0], hashed).status == 1


def test_what_became_of_the_shards_is_reported(hashed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shards.write(hashed / "0000.tar", {"a.jpg": b"1"})
    (hashed / "0001.tar").rename(hashed / "0002.tar")
    assert run("validate", hashed, "--manifest", hashed / "checksums.json", "--format", "json") == 1
    found = json.loads(capsys.readouterr().out)
    assert {kind: [each["name"] for each in found[kind]] for kind in ("changed", "missing", "added")} == {
        "changed": ["0000.tar"],
        "missing": ["0001.tar"],
        "added": ["0002.tar"],
    }
    assert run("validate", hashed, "--manifest", hashed / "checksums.json") == 1
    pasted = [paste(command, hashed) for command in commands(capsys.readouterr().out)]
    assert "2 shards: 9 samples in = 9 indexed" in pasted[-1].out  # accepts them as they are now
    assert run("validate", hashed, "--manifest", hashed / "checksums.json", "--level", "full") == 0


def test_a_part_that_differs_gets_advice_about_all_shards(hashed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shards.write(hashed / "0000.tar", {"a.jpg": b"1"})
    assert run("validate", hashed / "0000.tar", "--manifest", hashed / "checksums.json") == 1
    compare, accept = commands(capsys.readouterr().out)[-2:]
    assert "2 shards" in paste(compare, hashed).out
    assert paste(accept, hashed).status == 0
    assert sorted(load(hashed / "checksums.json").shards) == ["0000.tar", "0001.tar"]


def test_a_part_that_is_the_same_is_not_offered_for_all(hashed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("validate", hashed / "0000.tar", "--manifest", hashed / "checksums.json") == 1
    assert commands(capsys.readouterr().out) == [f"wdsflow validate --manifest {hashed}/checksums.json"]


@pytest.mark.parametrize("kind", ["checksums", "wids", "timm", "energon"])
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


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_set_whose_manifest_is_elsewhere_gets_another_one(
    hashed: Path, elsewhere: bool, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path_factory.mktemp("elsewhere")
    assert run("index", hashed, "--checksums", "-o", out) == 0
    shards.write(hashed / "0000.tar", {"a.jpg": b"1"})
    capsys.readouterr()
    assert run("validate", *([hashed] if elsewhere else []), "--manifest", out / "checksums.json") == 1
    pasted = [paste(command, hashed) for command in commands(capsys.readouterr().out)]
    assert run("validate", "--manifest", out / "checksums-2/checksums.json") == 0
    assert pasted


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--for", "timm"], "takes only --level, --jobs and --format"),
        (["--format", "sarif"], "has no --format sarif"),
        (["--", "--train-data", "x"], "forecasts no training"),
    ],
)
def test_a_manifest_is_compared_and_nothing_else(
    hashed: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("validate", hashed, "--manifest", hashed / "checksums.json", *words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("data", [b"", b"{}", b'{"wdsflow_certificate": 2}', b"\xff", b"[" * 100_000])
def test_what_is_no_manifest_is_refused(hashed: Path, data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    (hashed / "other.json").write_bytes(data)
    assert run("validate", "--manifest", hashed / "other.json") == 2
    assert str(hashed / "other.json") in capsys.readouterr().err


def test_another_file_in_place_of_a_manifest_is_refused_with_the_command_that_writes_one(
    hashed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (hashed / "other.json").write_text("{}")
    assert run("validate", "--manifest", hashed / "other.json") == 2
    assert "is not a manifest; write one with: wdsflow index . --checksums" in capsys.readouterr().err
    assert run("validate", hashed, "--manifest", hashed / "other.json") == 2
    assert f"is not a manifest; write one with: wdsflow index {hashed} --checksums" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("writes", "checks", "again"),
    [
        ("validate 'my set' --certify c.json", "verify c.json", "validate '{here}/my set/' --certify c.json"),
        (
            "validate 'my set/0001.tar' --certify c.json",
            "verify c.json",
            "validate '{here}/my set/0001.tar' --certify c.json",
        ),
        (
            "index 'my set' --checksums",
            "validate 'my set' --manifest 'my set/checksums.json'",
            "index 'my set' --checksums --force",
        ),
        (
            "index 'my set' --checksums -o sums",
            "verify sums/checksums.json",
            "index '{here}/my set/' --checksums -o sums --force",
        ),
    ],
)
def test_an_old_file_is_refused_with_the_command_that_writes_it_again(
    writes: str, checks: str, again: str, tmp_path: Path
) -> None:
    (tmp_path / "my set").mkdir()
    shards.with_txt(tmp_path / "my set")
    assert paste(f"wdsflow {writes}", tmp_path).status == 0
    as_version_1(next(file for file in tmp_path.rglob("*.json") if file.name in ("c.json", "checksums.json")))

    refused = paste(f"wdsflow {checks}", tmp_path)
    assert refused.status == 2
    command = refused.errors.partition("write it again with: ")[2].strip()
    assert command == f"wdsflow {again.format(here=tmp_path)}"
    assert paste(command, tmp_path).status == 0
    assert paste(f"wdsflow {checks}", tmp_path).status == 0


def as_version_1(file: Path) -> None:
    """Make a file one of the first format."""
    kind = "manifest" if file.name == "checksums.json" else "certificate"
    text = file.read_bytes().replace(b'"wdsflow_certificate": 2', f'"wdsflow_{kind}": 1'.encode())
    text = text.rpartition(b'"digest"')[0]
    file.write_bytes(text + f'"digest": "{sha256(text).hexdigest()}"\n}}\n'.encode())


def test_shards_that_were_added_can_be_accepted_at_once(hashed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shards.write(hashed / "0002.tar", {"a.jpg": b"1"})
    assert run("validate", "--manifest", hashed / "checksums.json") == 1
    assert "  1. accept the shards as they are now" in capsys.readouterr().out


def test_a_manifest_that_was_edited_is_refused(hashed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = hashed / "checksums.json"
    path.write_bytes(path.read_bytes().replace(b'"samples": 16', b'"samples": 17'))
    assert run("validate", "--manifest", path) == 2
    assert "was changed after it was written" in capsys.readouterr().err


@pytest.mark.deep
def test_a_thousand_shards_are_compared_in_two_seconds(tmp_path: Path) -> None:
    shards.write(tmp_path / "0000.tar", {"a.jpg": shards.jpeg(), "a.txt": b"a"})
    for number in range(1, 1000):
        os.link(tmp_path / "0000.tar", tmp_path / f"{number:04d}.tar")
    index_shards(str(tmp_path), ["checksums"])
    command = [
        sys.executable,
        "-m",
        "wdsflow",
        "validate",
        str(tmp_path),
        "--manifest",
        str(tmp_path / "checksums.json"),
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Of the processor: it waits for nothing, and other work on this machine is not its fault.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2
