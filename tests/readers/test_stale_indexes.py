"""Indexes next to shards: none that fits is reported, each that does not fit is."""

import json
import os
import shutil
import struct
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli import shards
from tests.printed.pasted import paste
from tests.shards.archives import write_tar
from wdsflow import check, index_shards
from wdsflow.indexing.index_options import KINDS


def wrong(folder: Path) -> list[str]:
    """Return the files that validate reports as wrong."""
    found = check(str(folder), level="names", select=["P305"]).findings
    return sorted(os.path.basename(finding.message.partition(" ")[0]) for finding in found)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("indexed")
    shards.with_txt(folder, shards=3)
    assert index_shards(str(folder), KINDS).ok
    return folder


@pytest.fixture
def indexed(once: Path, tmp_path: Path) -> Path:
    return shutil.copytree(once, tmp_path / "set")


def test_what_index_writes_fits(indexed: Path) -> None:
    assert wrong(indexed) == []


@pytest.mark.deep
def test_what_index_writes_of_odd_shards_fits(tmp_path: Path) -> None:
    names = [
        f"{'deep/' * number}{key}.{kind}"
        for number, key in enumerate(["a", "b"], 40)
        for kind in ("jpg", "txt")
    ]
    write_tar(tmp_path / "ustar.tar", [(name, b"1") for name in names])
    write_tar(
        tmp_path / "pax.tar", [(f"{'n' * 300}{name}", b"1") for name in names], tarfile.PAX_FORMAT
    )
    write_tar(
        tmp_path / "gnu.tar", [(f"{'m' * 300}{name}", b"1") for name in names], tarfile.GNU_FORMAT
    )
    index_shards(str(tmp_path), KINDS)
    assert wrong(tmp_path) == []


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "names",
    [
        ["a.jpg", "b.jpg", "a.txt", "b.txt"],
        ["__meta__/a.txt", "a.jpg", "a.txt"],
        [".a.jpg", "a.jpg", "a.txt"],
    ],
)
def test_a_fresh_index_fits_where_its_reader_counts_otherwise(
    tmp_path: Path, names: list[str]
) -> None:
    write_tar(tmp_path / "000.tar", [(name, b"1") for name in names])
    index_shards(str(tmp_path), KINDS)
    assert wrong(tmp_path) == []


def test_a_shard_with_fewer_samples_makes_all_of_them_stale(indexed: Path) -> None:
    shards.write(indexed / "0001.tar", {"a.jpg": b"1", "a.txt": b"2"})
    assert wrong(indexed) == sorted(["*.tar.idx", ".info.json", "_info.json", "sizes.json"])


@pytest.mark.deep
def test_a_shard_with_as_many_samples_in_other_places_is_noticed(indexed: Path) -> None:
    members = {f"01{n:04d}.{kind}": b"1" * 6000 for n in range(8) for kind in ("jpg", "txt")}
    shards.write(indexed / "0001.tar", members)
    assert wrong(indexed) == ["*.tar.idx"]


def test_a_shard_that_the_indexes_do_not_list_is_noticed(indexed: Path) -> None:
    shards.write(indexed / "0003.tar", {"x.jpg": b"1", "x.txt": b"2"})
    assert wrong(indexed) == [".info.json", "_info.json", "sizes.json"]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("name", "change", "reported"),
    [
        ("0000.tar.idx", lambda data: data[:-8], "*.tar.idx"),
        ("0000.tar.idx", lambda data: data[:-16] + struct.pack("<2Q", 7, 9), "*.tar.idx"),
        ("0000.tar.idx", lambda data: data[:-8] + b"\xff" * 8, "*.tar.idx"),
        ("0000.tar.idx", lambda _: b"odd", "*.tar.idx"),
        ("0000.tar.idx", lambda data: data[:-16] + b"\xff" * 8 + data[-8:], "*.tar.idx"),
        ("_info.json", lambda _: b"{}", "_info.json"),
        (
            "_info.json",
            lambda _: b'{"splits": {"train": {"filenames": ["0000.tar"], "shard_lengths": []}}}',
            "_info.json",
        ),
        ("_info.json", lambda _: b"[" * 100_000, "_info.json"),
        (".nv-meta/.info.json", lambda _: b'{"shard_counts": 3}', ".info.json"),
    ],
)
def test_a_wrong_index_is_noticed(
    indexed: Path, name: str, change: Callable[[bytes], bytes], reported: str
) -> None:
    path = indexed / name
    path.write_bytes(change(path.read_bytes()))
    assert wrong(indexed) == [reported]


def test_files_of_other_programs_are_no_indexes(tmp_path: Path) -> None:
    shards.with_txt(tmp_path)
    (tmp_path / "0000.tar.idx").mkdir()
    (tmp_path / "0007.tar.idx").write_bytes(b"of some other program")
    (tmp_path / "0007_stats.json").write_text('{"mean": 1}')
    assert wrong(tmp_path) == []


FACTS = ["sizes.json lists", "_info.json lists", ".nv-meta/.info.json lists", "has files of"]


def fixes(folder: Path) -> tuple[list[str], list[str]]:
    """Return the P305 messages for a folder, and the commands that they print.

    The messages are without the path of the folder; each command is listed once.
    """
    found = check(str(folder), level="names", select=["P305"]).findings
    texts = [each.message.removeprefix(str(folder)).lstrip("/ ") for each in found]
    return texts, list(dict.fromkeys(each.repair.command for each in found if each.repair))


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_shard_that_was_removed_is_reported_by_each_index_and_the_command_fixes_it(
    kind: str, tmp_path: Path
) -> None:
    shards.with_txt(tmp_path, shards=3)
    assert index_shards(str(tmp_path), [kind]).ok
    (tmp_path / "0001.tar").unlink()
    texts, (command,) = fixes(tmp_path)
    assert "0001" in " ".join(texts) or kind == "len"
    assert command == f"wdsflow index {tmp_path} --{kind}"
    assert paste(command, tmp_path).status == 0
    assert fixes(tmp_path) == ([], [])


def test_all_kinds_of_a_folder_have_one_command(tmp_path: Path) -> None:
    indexed = tmp_path / "set"
    indexed.mkdir()
    shards.with_txt(indexed, shards=3)
    index_shards(str(indexed), KINDS)
    (indexed / "0001.tar").unlink()
    texts, commands = fixes(indexed)
    assert [
        text for text, begin in zip(texts, FACTS, strict=True) if not text.startswith(begin)
    ] == []
    assert [text for text in texts if "0001.tar" not in text] == []
    assert len(commands) == 1
    assert "0001.tar.idx" in os.listdir(indexed)
    assert paste(commands[0], indexed.parent).status == 0
    assert fixes(indexed) == ([], [])
    assert "0001.tar.idx" not in os.listdir(indexed)


def test_files_that_something_else_wrote_are_replaced_or_removed_by_commands_that_say_so(
    indexed: Path,
) -> None:
    shutil.rmtree(indexed / ".wdsflow")
    (indexed / "0001.tar").unlink()
    (indexed / "0001_stats.json").write_text('{"failed_to_download": 1, "successes": 8}')
    _, commands = fixes(indexed)
    kinds = "--sizes --len --energon --timm"
    removed = [f"{indexed}/{name}" for name in ("0001.tar.idx", "0001_stats.json")]
    assert commands == [f"wdsflow index {indexed} {kinds} --restart", f"rm {' '.join(removed)}"]
    unsafe = [
        each.repair.safe
        for each in check(str(indexed), level="names", select=["P305"]).findings
        if each.repair
    ]
    assert unsafe == [False] * 3 + [True]  # split.yaml and dataset.yaml are written again
    assert paste(commands[0], indexed.parent).status == 0
    subprocess.run(commands[1], shell=True, check=True)
    assert fixes(indexed) == ([], [])


def test_a_part_of_a_folder_is_no_reason_to_miss_the_others(indexed: Path) -> None:
    found = check([str(indexed / "0000.tar")], level="names", select=["P305"]).findings
    assert found == []


def test_shards_that_are_elsewhere_are_not_looked_for(tmp_path: Path) -> None:
    shards.with_txt(tmp_path)
    names = ["s3://bucket/0002.tar", "pipe:cat 0003.tar", str(tmp_path / "0001.tar"), "0000.tar"]
    splits = {"train": {"filenames": names, "shard_lengths": [8] * 4}}
    (tmp_path / "_info.json").write_text(json.dumps({"splits": splits}))
    assert fixes(tmp_path)[0] == []


@pytest.mark.deep
def test_a_fact_names_the_shards(indexed: Path) -> None:
    (indexed / "0002.tar.idx").write_bytes(bytes(16))
    (finding,) = check(str(indexed), level="names", select=["P305"]).findings
    assert (
        f"{indexed}/*.tar.idx does not agree with the shards: 0002.tar.idx: 1 sample instead of 8"
        in finding.message
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("sizes.json", b"{bad", "it is not JSON: "),
        ("sizes.json", b"\xff\xfe", "it is not text in UTF-8"),
        ("sizes.json", b"[1]", "it is a list, not an object"),
        (
            "sizes.json",
            b'{"000.tar": "many", "001.tar": 10, "002.tar": 10}',
            "000.tar: no number instead of 10",
        ),
        ("__len__", b"nine", "it holds no number"),
        ("_info.json", b'{"splits": {', "it is not JSON: "),
        ("_info.json", b"{}", "it lacks 'splits'"),
    ],
)
def test_a_file_that_cannot_be_read_is_reported_in_plain_words_and_written_again_by_the_printed_command(
    tmp_path: Path, file: str, text: bytes, says: str
) -> None:
    write_numbered(tmp_path)
    (tmp_path / file).write_bytes(text)
    (finding,) = check(str(tmp_path), level="names", select=["P305"]).findings
    assert f"{file} " in finding.message
    assert says in finding.message
    assert "Error" not in finding.message
    assert finding.repair is not None
    assert paste(finding.repair.command, tmp_path).status == 0
    assert wrong(tmp_path) == []


def write_numbered(folder: Path) -> None:
    for number in range(3):
        members = [
            (f"{number}{sample}.{end}", b"1") for sample in range(10) for end in ("jpg", "txt")
        ]
        write_tar(folder / f"{number:03d}.tar", members)
