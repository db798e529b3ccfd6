"""Grafts that are killed, meet a full disk, or whose table changes can be rerun.

The same command again gives the bytes of an undisturbed graft.

``WDSFLOW_KILLS=100`` kills more often.
"""

import json
import random
import resource
import shutil
import signal
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.filtering.shards import digests
from tests.killed import killed_again_and_again
from tests.shards.archives import JPEG, read_tar, tar_bytes
from wdsflow.repair import OtherOptions
from wdsflow.reshaping.graft.run_graft import graft_shards

MODULES = ["wdsflow.reshaping.graft.run_graft", "xxhash", "pyarrow.parquet", "numpy", "duckdb"]
OPTIONS = {"on": "json:url=u", "fields": ["txt=c", "json:c=c"], "ambiguous": "first"}


def write_table(path: Path, word: str = "new") -> Path:
    rows = [
        {"u": f"http://{n % 550}", "c": None if n % 13 == 0 else f"{word} {n}" * (n % 50)}
        for n in range(700)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=100)
    return path


@pytest.fixture
def shards(tmp_path: Path) -> str:
    """Six shards of 100 samples; some urls are in two of them."""
    (tmp_path / "in").mkdir()
    for shard in range(6):
        entries = []
        for n in range(100):
            number = shard * 100 + n
            facts = {"url": f"http://{number if n % 10 else number // 2}"}
            image = JPEG * random.Random(number).randrange(100, 3000)
            entries += [
                (f"{number:05}.jpg", image),
                (f"{number:05}.json", json.dumps(facts).encode()),
            ]
        (tmp_path / "in" / f"{shard}.tar").write_bytes(tar_bytes(entries))
    write_table(tmp_path / "t.parquet")
    return str(tmp_path / "in")


def graft(shards: str, out: Path, **more: object):
    return graft_shards(shards, out, table=out.parent / "t.parquet", jobs=2, **(OPTIONS | more))


def test_a_graft_killed_again_and_again_ends_with_the_same_bytes(shards: str, tmp_path: Path):
    out = tmp_path / "out"
    killed_again_and_again(partial(graft, shards, out), out, MODULES)


def test_a_full_disk_leaves_whole_shards_and_the_same_command_ends_the_work(
    shards: str, tmp_path: Path
):
    out = tmp_path / "out"
    graft(shards, out)
    whole, sizes = digests(out), sorted(path.stat().st_size for path in out.glob("*.tar"))
    shutil.rmtree(out)
    before, limit = (
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
        resource.getrlimit(resource.RLIMIT_FSIZE),
    )
    resource.setrlimit(resource.RLIMIT_FSIZE, (sizes[2], limit[1]))
    try:
        with pytest.raises(OSError, match=r"File too large.*tar'"):
            graft(shards, out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)
    for name, digest in digests(out).items():
        assert not name.endswith(".tar") or digest == whole[name]
    assert not list(out.glob("*.tmp"))
    graft(shards, out)
    assert digests(out) == whole


@pytest.mark.deep
def test_a_table_that_changed_is_noticed(shards: str, tmp_path: Path):
    out = tmp_path / "out"
    graft(shards, out)
    assert graft(shards, out).resumed == 6
    write_table(tmp_path / "t.parquet", "other")
    report = graft(shards, out)
    assert (report.resumed, len(report.changed)) == (0, 6)
    assert report.changed[0].endswith("0.tar: the table changed")
    assert b"other 1" in dict(read_tar(out / "0.tar"))["00001.txt"]


@pytest.mark.deep
def test_a_shard_is_written_again_only_if_its_rows_are_others(shards: str, tmp_path: Path):
    """With one shard less before them, samples of a later shard are the first that have a row."""
    out, urls = tmp_path / "out", [f"{shards}/{n}.tar" for n in range(6)]
    graft(urls, out)
    report = graft(urls[1:], out)
    assert report.resumed + len(report.changed) == 5
    assert {line.rpartition(": ")[2] for line in report.changed} == {
        "other rows match its samples now"
    }
    graft(urls[1:], tmp_path / "again")
    assert {
        n: digest for n, digest in digests(out).items() if n.endswith(".tar") and n != "0.tar"
    } == {n: digest for n, digest in digests(tmp_path / "again").items() if n.endswith(".tar")}


@pytest.mark.deep
def test_other_options_are_refused(shards: str, tmp_path: Path):
    graft(shards, tmp_path / "out")
    with pytest.raises(OtherOptions, match="--ambiguous was first, now it is each"):
        graft(shards, tmp_path / "out", ambiguous="each")
    with pytest.raises(FileExistsError, match="is an input"):
        graft(shards, tmp_path / "in")


@pytest.mark.sample(1)
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_first_pass_leaves_nothing_behind(shards: str, tmp_path: Path, error):
    out, seen = tmp_path / "out", []

    def fail(_: object) -> None:
        seen.extend(path.name for path in (out / ".wdsflow/graft").iterdir())
        raise error

    with pytest.raises(error):
        graft(shards, out, begin=lambda _: fail)
    assert "0.joins" in seen
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("in", "t.parquet")] == []


@pytest.mark.deep
def test_many_small_samples_get_the_rows_of_their_keys(tmp_path: Path):
    old = [
        (f"{n:06}.{field}", f"{field} {n}".encode() * (n % 40))
        for n in range(3000)
        for field in ("jpg", "txt", "cls")
    ]
    (tmp_path / "a.tar").write_bytes(tar_bytes(old))
    rows = [
        {"key": f"{n:06}", "c": [f"new {n} é" * (n % 30), None, n][(n % 11 == 0) + (n % 77 == 0)]}
        for n in range(0, 3000, 2)
    ]
    (tmp_path / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in reversed(rows)))
    out = tmp_path / "out"
    report = graft_shards(
        str(tmp_path / "a.tar"),
        out,
        table=tmp_path / "t.jsonl",
        on="key",
        fields=["txt=c", "new=c"],
    )
    new = {row["key"]: row["c"] for row in rows if row["c"] is not None}
    expected = []
    for name, data in old:
        key, _, field = name.partition(".")
        text = str(new[key]).encode() if key in new else b""
        expected.append((name, text if field == "txt" and key in new else data))
        if field == "cls" and key in new:
            expected.append((f"{key}.new", text))
    assert read_tar(out / "a.tar") == expected
    assert report.total("matched") == len(rows)
    assert report.total("unmatched") == 3000 - len(rows)
    assert report.shards[0].missed.total() == 2 * (len(rows) - len(new))
