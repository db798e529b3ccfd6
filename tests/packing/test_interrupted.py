"""Packs that are killed, or whose rows change: a rerun gives the bytes of an undisturbed pack.

``WDSFLOW_KILLS=100`` kills more often.
"""

import json
from functools import partial
from pathlib import Path

import pytest

from tests.filtering.shards import digests
from tests.killed import killed_again_and_again
from tests.packing.tables import jpeg, packed, usual_rows, write_images, write_lines
from wdsflow import pack_shards
from wdsflow.repair import OtherOptions

MODULES = [
    "wdsflow.packing.run_pack",
    "wdsflow.packing.shard.write_shard",
    "xxhash",
    "orjson",
    "duckdb",
    "numpy",
]


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A table of 300 rows, of which some are left out in each pass."""
    rows = usual_rows(write_images(tmp_path, 300))
    for number in range(0, 300, 50):
        (tmp_path / f"img/{number}.jpg").write_bytes(b"<html>")
        (tmp_path / f"img/{number + 1}.jpg").unlink()
        rows[number + 2]["caption"] = ""
        rows[number + 3]["id"] = "id-4"
    return write_lines(tmp_path / "t.jsonl", rows)


@pytest.mark.sample(1)
@pytest.mark.parametrize("options", [{}, {"key": "id", "shuffle": 1}])
def test_a_pack_killed_again_and_again_ends_with_the_same_bytes(
    table: str, tmp_path: Path, options
):
    run = partial(pack_shards, table, tmp_path / "out", samples=20, **options)
    killed_again_and_again(run, tmp_path / "out", MODULES)


def test_finished_shards_are_kept_and_those_of_changed_files_written_again(
    table: str, tmp_path: Path
):
    out = tmp_path / "out"
    first = pack_shards(table, out, samples=20)
    before = digests(out)
    again = pack_shards(table, out, samples=20)
    assert (again.resumed, again.changed, digests(out)) == (len(first.shards), [], before)
    assert (again.rows, again.samples, again.left_out) == (300, 282, first.left_out)
    (tmp_path / "img/7.jpg").write_bytes(jpeg(1000))
    third = pack_shards(table, out, samples=20)
    assert third.changed == [f"{out}/00000.tar: the table or its files changed"]
    assert packed(out)["00000008"]["jpg"] == jpeg(1000)


def test_shards_that_a_shorter_table_no_longer_has_are_removed(table: str, tmp_path: Path):
    out = tmp_path / "out"
    pack_shards(table, out, samples=20)
    lines = Path(table).read_text().splitlines(keepends=True)
    Path(table).write_text("".join(lines[:100]))
    report = pack_shards(table, out, samples=20)
    assert (report.rows, report.removed, len(list(out.glob("*.tar")))) == (100, 10, 5)
    assert len(packed(out)) == report.samples == 94
    assert "removed: 10 shards of an earlier run of other rows" in str(report).splitlines()


@pytest.mark.deep
def test_other_options_are_refused_and_restart_replaces(table: str, tmp_path: Path):
    out = tmp_path / "out"
    pack_shards(table, out, samples=20)
    with pytest.raises(OtherOptions, match="--samples was 20, now it is 30"):
        pack_shards(table, out, samples=30)
    report = pack_shards(table, out, samples=30, restart=True)
    fresh = pack_shards(table, tmp_path / "fresh", samples=30)
    assert report.samples == fresh.samples
    assert {name: digest for name, digest in digests(out).items() if name.endswith(".tar")} == {
        name: digest
        for name, digest in digests(tmp_path / "fresh").items()
        if name.endswith(".tar")
    }


def test_any_number_of_jobs_gives_the_same_bytes(table: str, tmp_path: Path):
    for jobs in (1, 3):
        pack_shards(table, tmp_path / str(jobs), samples=7, shuffle=5, key="id", jobs=jobs)
    assert digests(tmp_path / "1") == digests(tmp_path / "3")


def test_a_folder_of_others_is_refused(table: str, tmp_path: Path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/00000.tar").write_bytes(b"x")
    with pytest.raises(FileExistsError, match="no pack wrote it"):
        pack_shards(table, tmp_path / "out")


def test_a_shard_whose_rows_are_all_left_out_is_no_file_and_is_done(tmp_path: Path):
    rows = usual_rows(write_images(tmp_path, 9))
    for number in (3, 4, 5):
        (tmp_path / f"img/{number}.jpg").write_bytes(b"<html>")
    table, out = write_lines(tmp_path / "t.jsonl", rows), tmp_path / "out"
    report = pack_shards(table, out, samples=3)
    assert sorted(path.name for path in out.glob("*.tar")) == ["00000.tar", "00002.tar"]
    assert json.loads((out / "sizes.json").read_text()) == {"00000.tar": 3, "00002.tar": 3}
    assert (report.samples, report.left_out.total()) == (6, 3)
    assert pack_shards(table, out, samples=3).resumed == 3


@pytest.mark.sample(1)
@pytest.mark.parametrize("named", [["a0.jsonl", "a1.jsonl"], ["a{0..1}.jsonl"], ["a*.jsonl"]])
def test_tables_are_the_same_however_they_are_named(tmp_path: Path, monkeypatch, named):
    monkeypatch.chdir(tmp_path)
    paths = write_images(tmp_path, 4)
    write_lines(tmp_path / "a0.jsonl", usual_rows(paths[:2]))
    write_lines(tmp_path / "a1.jsonl", usual_rows(paths[2:]))
    pack_shards("a{0..1}.jsonl", "out")
    report = pack_shards(named, "out")
    assert (report.resumed, report.samples) == (1, 4)


@pytest.mark.deep
def test_rows_that_are_left_out_when_they_are_read_are_in_files_and_all_listed_after_a_resume(
    tmp_path: Path,
):
    rows = usual_rows(write_images(tmp_path, 40))
    for number in range(1, 40, 2):
        (tmp_path / f"img/{number}.jpg").write_bytes(b"<html>")
    rows[0]["caption"] = ""
    table, out = write_lines(tmp_path / "t.jsonl", rows), tmp_path / "out"
    first = pack_shards(table, out, samples=10)
    listed = Path(first.listed).read_bytes()
    assert len(listed.splitlines()) == 21
    assert b"<html>" not in (out / ".wdsflow/pack.jsonl").read_bytes()
    assert {reason: len(rows) for reason, rows in first.examples.items()} == {
        "not an image or video": 3,
        "no caption": 1,
    }
    Path(first.listed).unlink()
    again = pack_shards(table, out, samples=10)
    assert (again.resumed, Path(again.listed).read_bytes()) == (4, listed)
    assert again.examples == first.examples
    next((out / ".wdsflow/pack-left-out").iterdir()).unlink()
    third = pack_shards(table, out, samples=10)
    assert (third.resumed, Path(third.listed).read_bytes()) == (3, listed)
    for number in range(40):
        (tmp_path / f"img/{number}.jpg").write_bytes(jpeg(number))
    fourth = pack_shards(table, out, samples=10)
    assert (fourth.samples, (out / ".wdsflow/pack-left-out").exists()) == (39, False)
