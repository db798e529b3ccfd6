"""What is wrong with a file next to shards, word by word, and what is not."""

import json
import struct
from pathlib import Path

import pytest

from tests.cli import shards
from wdsflow import check, index_shards
from wdsflow.indexing.index_options import KINDS


def numbers(*offsets: int) -> bytes:
    return struct.pack(f"<{len(offsets)}Q", *offsets)


def timm(**counts: object) -> bytes:
    """Return timm's _info.json for shards of these names."""
    split = {
        "filenames": [f"{name[1:]}.tar" for name in counts],
        "shard_lengths": list(counts.values()),
    }
    return json.dumps({"splits": {"train": split}}).encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shards of 10,240 bytes, with 1 and 2 samples.

    The headers of the second are at 0, 1536, 2560 and 3584.
    """
    found = tmp_path_factory.mktemp("indexed")
    shards.with_txt(found, shards=1, samples=1)
    shards.write(
        found / "0001.tar", {"b.jpg": b"1" * 600, "b.txt": b"2", "c.jpg": b"3", "c.txt": b"4"}
    )
    assert index_shards(str(found), KINDS).ok
    return found


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("0000.tar.idx", numbers(0, 2560), ""),
        (
            "0000.tar.idx",
            numbers(0, 10**9),
            "0000.tar.idx: ends at byte 1,000,000,000, and the shard at 10,240",
        ),
        (
            "0000.tar.idx",
            numbers(512, 3072),
            "0000.tar.idx: names byte 512, where the shard has no member",
        ),
        ("0000.tar.idx", numbers(0), "0000.tar.idx: 0 samples instead of 1"),
        ("0000.tar.idx", b"", "0000.tar.idx: cannot be read"),
        ("0000.tar.idx", b"1234567890", "0000.tar.idx: cannot be read"),
        ("0001.tar.idx", numbers(0, 7), "0001.tar.idx: 1 sample instead of 2"),
        ("0001.tar.idx", numbers(0, 2560, 10_240), ""),
        (
            "0001.tar.idx",
            numbers(0, 2560, 10_241),
            "0001.tar.idx: ends at byte 10,241, and the shard at 10,240",
        ),
        (
            "0001.tar.idx",
            numbers(0, 2561, 4608),
            "0001.tar.idx: names byte 2,561, where the shard has no member",
        ),
        ("0001.tar.idx", numbers(0, 0, 2560, 5120), ""),
        (
            "0001.tar.idx",
            numbers(0, (1 << 64) - 1, 4608),
            f"0001.tar.idx: names byte {(1 << 64) - 1:,}, where the shard has no member",
        ),
    ],
)
def test_an_index_of_one_shard_is_compared_with_it(
    folder: Path, name: str, data: bytes, said: str
) -> None:
    assert told(folder, name, data) == (
        f"*{name[4:]} does not agree with the shards: {said}" if said else ""
    )


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("sizes.json", b'{"0000.tar": 1}', "does not list 0001.tar"),
        (
            "sizes.json",
            b'{"0000.tar": 2, "0001.tar": 2}',
            "does not agree with the shards: 0000.tar: 2 instead of 1",
        ),
        (
            "sizes.json",
            b'{"0000.tar": "x", "0001.tar": 1}',
            "does not agree with the shards: 0000.tar: no number instead of 1, 0001.tar: 1 instead of 2",
        ),
        (
            "sizes.json",
            b'{"0000.tar": 1, "0001.tar": 2, "7.tar": 1, "8.tar": 1, "9.tar": 1}',
            "lists 7.tar, 8.tar, 9.tar, which are not there",
        ),
        (
            "sizes.json",
            b'{"0000.tar": 1, "0001.tar": 2, "7.tar": 1, "8.tar": 1, "9.tar": 1, "a.tar": 3}',
            "lists 7.tar, 8.tar, 9.tar and 1 more, which are not there",
        ),
        ("sizes.json", b"[]", "cannot be read: it is a list, not an object"),
        ("__len__", b"4", ""),  # sizes.json is there, and wins
        ("__len__", b'"x"', "cannot be read: it holds a str, not a number"),
        ("__len__", b"1" * 1001, "cannot be read: it holds no number"),
        ("__len__", b"3" + b" " * 999, ""),
        ("_info.json", timm(_0000=1, _0001=2), ""),
        ("_info.json", timm(_0000=1), "does not list 0001.tar"),
        ("_info.json", timm(_0000=1, _0001=2, _5=2), "lists 5.tar, which is not there"),
        (
            "_info.json",
            timm(_0000=0, _0001=2),
            "does not agree with the shards: 0000.tar: 0 instead of 1",
        ),
        (
            "_info.json",
            timm(_0000="x", _0001=2),
            "does not agree with the shards: 0000.tar: no number instead of 1",
        ),
        ("_info.json", b'{"split": 3}', "cannot be read: it lacks 'splits'"),
        (".nv-meta/.info.json", b'{"shard_counts": {"0000.tar": 1}}', "does not list 0001.tar"),
    ],
)
def test_a_list_of_all_shards_is_compared_with_them(
    folder: Path, name: str, data: bytes, said: str
) -> None:
    assert told(folder, name, data) == (f"{name} {said}" if said else "")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("length", "said"), [(b"3", ""), (b"3.0", ""), (b"4", "says 4; there are 3")]
)
def test_a_length_counts_where_there_are_no_sizes(folder: Path, length: bytes, said: str) -> None:
    sizes = (folder / "sizes.json").read_bytes()
    (folder / "sizes.json").unlink()
    try:
        assert told(folder, "__len__", length) == (
            f"__len__ does not agree with the shards: {said}" if said else ""
        )
    finally:
        (folder / "sizes.json").write_bytes(sizes)


def told(folder: Path, name: str, data: bytes) -> str:
    """Return what validate says of the folder while a file in it holds something else."""
    path = folder / name
    before = path.read_bytes() if path.exists() else None
    path.write_bytes(data)
    try:
        found = check(str(folder), level="names", select=["P305"]).findings
    finally:
        path.unlink()
        if before is not None:
            path.write_bytes(before)
    return "\n".join(each.message.removeprefix(f"{folder}/") for each in found)
