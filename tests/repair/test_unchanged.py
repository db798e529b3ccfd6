"""Shards that need no change are part of the output: byte for byte, or as hard links."""

import gzip
import os
import tarfile
from pathlib import Path

import pytest

from tests.shards.archives import JPEG, Entry, folder, read_tar, tar_bytes, write_tar
from wdsflow import repair_shards


def pairs(*keys: str) -> list[Entry]:
    return [(f"{key}.{field}", JPEG + key.encode()) for key in keys for field in ("jpg", "txt")]


@pytest.mark.parametrize("link", [False, True])
def test_a_valid_shard_is_copied_or_linked_next_to_repaired_ones(tmp_path: Path, link: bool):
    # Times, owners and padding are not those that a repair writes.
    (tmp_path / "0.tar").write_bytes(tar_bytes(pairs("0", "1"), tarfile.GNU_FORMAT))
    write_tar(tmp_path / "1.tar", pairs("2", "3")[::2] + pairs("2", "3")[1::2])
    urls = [str(tmp_path / "0.tar"), str(tmp_path / "1.tar")]
    report = repair_shards(urls, tmp_path / "out", link=link)
    assert [shard.unchanged for shard in report.shards] == ["linked" if link else "copied", ""]
    assert (tmp_path / "out/0.tar").read_bytes() == (tmp_path / "0.tar").read_bytes()
    assert os.path.samefile(tmp_path / "out/0.tar", tmp_path / "0.tar") == link
    assert read_tar(tmp_path / "out/1.tar") == pairs("2", "3")
    assert (tmp_path / "out/sizes.json").read_text() == '{\n "0.tar": 2,\n "1.tar": 2\n}\n'
    assert repair_shards(urls, tmp_path / "out", link=link).resumed == 2
    repair_shards(urls, tmp_path / "out", restart=True)
    assert len(read_tar(tmp_path / "0.tar")) == 4


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(tar_bytes(pairs("0"))),
        tar_bytes(pairs("0"))[: 4 * 512],
        tar_bytes([folder("d"), *pairs("0")]),
        tar_bytes([*pairs("0"), ("1.JPG", JPEG)]),
        tar_bytes(pairs("0")) + tar_bytes(pairs("1")),
        tar_bytes([("./0.jpg", JPEG)]),
    ],
    ids=["packed", "without an end mark", "a folder", "upper case", "two archives", "a prefix"],
)
def test_any_other_shard_is_written_again(tmp_path: Path, data: bytes):
    (tmp_path / "0.tar").write_bytes(data)
    report = repair_shards(str(tmp_path / "0.tar"), tmp_path / "out", link=True)
    assert report.shards[0].unchanged == ""
    assert (tmp_path / "out/0.tar").read_bytes() != data
    again = repair_shards(str(tmp_path / "out/0.tar"), tmp_path / "again")
    assert again.shards[0].unchanged == "copied"
    assert (tmp_path / "again/0.tar").read_bytes() == (tmp_path / "out/0.tar").read_bytes()


def test_a_step_that_changes_one_sample_changes_its_shard_only(tmp_path: Path):
    write_tar(tmp_path / "0.tar", pairs("0", "1"))
    write_tar(tmp_path / "1.tar", [*pairs("2"), ("3.jfif", JPEG), ("3.txt", b"a cat")])
    report = repair_shards(
        [str(tmp_path / "0.tar"), str(tmp_path / "1.tar")], tmp_path / "out", rename={"jfif": "jpg"}
    )
    assert [shard.unchanged for shard in report.shards] == ["copied", ""]
    assert [name for name, _ in read_tar(tmp_path / "out/1.tar")][2:] == ["3.jpg", "3.txt"]
    assert report.merged("applied") == {"--rename jfif=jpg": 1}
    assert "step: 1 x rename jfif to jpg" in str(report)


def test_a_large_shard_is_copied_whole(tmp_path: Path):
    data = tar_bytes([("0.jpg", os.urandom(9 << 20)), ("0.txt", b"a cat")])
    (tmp_path / "0.tar").write_bytes(data)
    assert repair_shards(str(tmp_path / "0.tar"), tmp_path / "out").shards[0].bytes == len(data)
    assert (tmp_path / "out/0.tar").read_bytes() == data


def test_a_copy_without_help_of_the_kernel_is_the_same(tmp_path: Path, monkeypatch):
    monkeypatch.delattr(os, "copy_file_range", raising=False)
    data = tar_bytes([("0.jpg", os.urandom(5 << 20)), ("0.txt", b"a cat")])
    (tmp_path / "0.tar").write_bytes(data)
    repair_shards(str(tmp_path / "0.tar"), tmp_path / "out")
    assert (tmp_path / "out/0.tar").read_bytes() == data
