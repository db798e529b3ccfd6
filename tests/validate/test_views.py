"""The view of a shard for readers that skip other members than webdataset does.

Also tests what cannot be judged.
"""

from pathlib import Path

import pytest

from tests.conformance.archives import Entry, write
from wdsflow.readers import READERS
from wdsflow.scan.evidence import Level, ScanOptions, ShardEvidence
from wdsflow.scan.scan import scan_shard
from wdsflow.scan.shapes import Runs
from wdsflow.scan.statuses import UNKNOWN
from wdsflow.shards.source.base import single_shard


def scan(
    path: Path, entries: list[Entry], level: Level = "headers", **options: tuple[str, ...]
) -> ShardEvidence:
    path.write_bytes(write(entries, 2).data)
    return scan_shard(single_shard(str(path)), ScanOptions(level, **options))  # type: ignore[arg-type]


def members(names: str) -> list[Entry]:
    return [Entry(name, b"7") for name in names.split()]


def keys(runs: Runs) -> list[str]:
    """Return keys in order; only right where all shapes differ."""
    assert all(item.count == 1 for item in runs.inner)
    return [run.key for run in (runs.head, *runs.inner, runs.tail) if run is not None]


@pytest.mark.parametrize("level", ["names", "headers"])
def test_each_reader_sees_its_own_members(tmp_path: Path, level: Level) -> None:
    shard = scan(
        tmp_path / "a.tar", members("0.cls d/._0.cls 0.txt __x__/1.cls __y__.bin 0.json"), level
    )

    seen = {name: keys(reader().runs(shard)) for name, reader in READERS.items()}
    assert seen["open-clip-3.3"] == seen["webdataset-1"] == ["0", "d/", "0", "__y__", "0"]
    assert seen["datasets"] == ["0", "__x__/1", "0"]
    assert seen["ray-data"] == ["0", "d/", "0", "__x__/1", "__y__", "0"]


@pytest.mark.parametrize("level", ["names", "headers"])
def test_without_hidden_and_metadata_members_there_is_one_view(
    tmp_path: Path, level: Level
) -> None:
    shard = scan(tmp_path / "a.tar", members("0.cls 0.txt README 1.cls 1.txt"), level)

    assert shard.visible_runs is shard.all_runs is None


@pytest.mark.parametrize(
    ("names", "tally"),
    [
        ("0.cls 1.cls 0.txt", "key.again"),
        ("0.cls __x__/a.cls 0.txt", "key.again-junk"),
        ("d/._0.cls d/0.cls d/._0.txt d/0.txt", "key.again-junk"),
        ("__x__/a.cls 0.cls __x__/a.txt 1.cls", "key.again-junk"),
        ("0.cls 0.txt 1.cls 1.txt", ""),
    ],
)
def test_keys_that_come_back_are_counted_for_readers_that_refuse_them(
    tmp_path: Path, names: str, tally: str
) -> None:
    shard = scan(tmp_path / "a.tar", members(names))

    assert bool(shard.tally(tally).count) == bool(tally)
    assert bool(READERS["ray-data"]().crash_at_shard(shard)) == bool(tally)


def test_fields_that_a_reader_was_told_to_take_are_looked_into(tmp_path: Path) -> None:
    entries = [Entry("0.caption", b"\xff"), Entry("0.picture", b"none"), Entry("0.other", b"\xff")]
    told = scan(tmp_path / "a.tar", entries, "full", text_key=("caption",), image_key=("picture",))
    untold = scan(tmp_path / "a.tar", entries, "full")

    assert told.runs.head is not None
    assert untold.runs.head is not None
    assert [part.status for part in told.runs.head.shape] == ["not-utf8", "not-image", "-"]
    assert [part.status for part in untold.runs.head.shape] == ["-", "-", "-"]


def test_contents_of_sparse_members_are_not_judged(tmp_path: Path) -> None:
    holed = Entry("0.txt", b"\xff", pax={"GNU.sparse.size": "9", "GNU.sparse.numblocks": "0"})
    shard = scan(
        tmp_path / "a.tar", [holed, Entry("0.cls", b"7", "sparse"), Entry("1.cls", b"", "sparse")]
    )

    assert shard.runs.head is not None
    assert shard.runs.tail is not None
    assert [part.status for part in shard.runs.head.shape] == [UNKNOWN, UNKNOWN]
    assert [part.status for part in shard.runs.tail.shape] == [UNKNOWN]
