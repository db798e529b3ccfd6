"""Lists of kept samples for other tools."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.filtering.shards import picture
from tests.shards.archives import write_tar
from wdsflow.cli.main import main

UIDS = ["f" * 32, "0" * 31 + "1", "a" * 16 + "0" * 16]


@pytest.fixture
def shards(tmp_path: Path) -> str:
    image, small = picture(300, 300), picture(20, 20)
    for shard in range(2):
        members = []
        for number, uid in enumerate(UIDS):
            about = {
                "uid": uid,
                "url": f"http://x/{number}",
                "caption": "a \ud83d\ude00",
                "width": 300,
                "height": "?",
            }
            key = f"{shard}{number}"
            members += [
                (f"{key}.jpg", small if number == 1 else image),
                (f"{key}.json", json.dumps(about).encode()),
            ]
        write_tar(tmp_path / f"{shard}.tar", members)
    return str(tmp_path)


def cut(shards: str, out: Path, *exports: object) -> int:
    words = ["filter", shards, "-o", out, "--where", "min_side >= 200", "--jobs", 0]
    with pytest.raises(SystemExit) as ended:
        main(
            [
                str(word)
                for word in (*words, *(word for path in exports for word in ("--export", path)))
            ]
        )
    return int(ended.value.code or 0)


def test_keys_uids_and_columns_of_kept_samples_are_listed(shards, tmp_path: Path, capsys):
    out = tmp_path / "out"
    assert (
        cut(shards, out, tmp_path / "keys.txt", tmp_path / "uids.npy", tmp_path / "kept.parquet")
        == 0
    )
    assert (tmp_path / "keys.txt").read_text().split() == ["00", "02", "10", "12"]
    uids = np.load(tmp_path / "uids.npy")
    assert uids.dtype == np.dtype("u8,u8")
    assert [f"{high:016x}{low:016x}" for high, low in uids.tolist()] == [UIDS[2]] * 2 + [
        UIDS[0]
    ] * 2
    rows = pq.read_table(tmp_path / "kept.parquet").to_pylist()
    assert [(row["key"], row["shard"]) for row in rows] == [
        ("00", "0.tar"),
        ("02", "0.tar"),
        ("10", "1.tar"),
        ("12", "1.tar"),
    ]
    assert (rows[1]["url"], rows[1]["caption"], rows[1]["width"], rows[1]["height"]) == (
        "http://x/2",
        "a \U0001f600",
        300,
        None,
    )
    assert f"4 samples listed in {tmp_path / 'keys.txt'}" in capsys.readouterr().out


def test_a_list_that_cannot_be_made_is_told(shards, tmp_path: Path, capsys):
    assert cut(shards, tmp_path / "out", "keys.csv") == 2
    assert "lists end in .txt (keys), .npy" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    write_tar(tmp_path / "1.tar", [("a.jpg", picture(300, 300))])
    assert cut(shards, tmp_path / "out", tmp_path / "uids.npy") == 2
    assert "1 of the kept samples have no uid" in capsys.readouterr().err
    assert not (tmp_path / "uids.npy").exists()


def test_keys_that_are_several_lines_are_not_listed_in_a_text(tmp_path: Path, capsys):
    write_tar(
        tmp_path / "0.tar",
        [("a\nb.jpg", picture(300, 300)), ("c.jpg", picture(300, 300)), ("c.json", b"{")],
    )
    assert cut(str(tmp_path / "0.tar"), tmp_path / "out", tmp_path / "keys.txt") == 2
    assert (
        "keys with line breaks cannot be listed in .txt; export to .parquet"
        in capsys.readouterr().err
    )
    assert cut(str(tmp_path / "0.tar"), tmp_path / "out", tmp_path / "kept.parquet") == 0
    rows = pq.read_table(tmp_path / "kept.parquet").to_pylist()
    assert [(row["key"], row["url"]) for row in rows] == [("a\nb", None), ("c", None)]


def test_a_shard_of_which_nothing_was_kept_adds_nothing_to_a_list(shards, tmp_path: Path):
    members = [("2.jpg", picture(20, 20)), ("2.json", json.dumps({"uid": UIDS[0]}).encode())]
    write_tar(tmp_path / "2.tar", members)
    lists = [tmp_path / name for name in ("keys.txt", "uids.npy", "kept.parquet")]
    assert cut(shards, tmp_path / "out", *lists) == 0
    assert not (tmp_path / "out/2.tar").exists()
    assert lists[0].read_text().split() == ["00", "02", "10", "12"]
    assert len(np.load(lists[1])) == len(pq.read_table(lists[2])) == 4
