"""Filtering from end to end.

Survivors are unchanged byte for byte, every sample is accounted for, and nothing is lost or written
twice.
"""

import gzip
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.filtering.shards import digests, entries, picture, write_shards
from tests.shards.archives import names, read_tar, write_tar
from wdsflow import Recipe, RunOptions, filter_shards, measure_shards
from wdsflow.expressions.errors import ExpressionError
from wdsflow.filtering.ledger.ledger_metadata import LedgerError
from wdsflow.filtering.run_differences import Differs
from wdsflow.records.folder_lock import Busy, Lock

# Processes that it starts import PyTorch.

LARGE = Recipe(where="min_side >= 200")
HERE = RunOptions(jobs=0)


def kept_of(folder: Path) -> dict[str, bytes]:
    return {name: data for tar in sorted(folder.glob("*.tar")) for name, data in read_tar(tar)}


def ledger(out: Path, name: str = "00000") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(
        out / ".wdsflow" / "ledger" / f"{name}.parquet"
    ).to_pylist()
    return found


def test_survivors_keep_their_bytes_names_and_order(tmp_path: Path):
    source = write_shards(tmp_path / "in")
    report = filter_shards(source, tmp_path / "out", LARGE, HERE)
    assert (report.total("samples"), report.total("kept"), report.merged("dropped")) == (
        60,
        30,
        {"min_side >= 200": 30},
    )
    for shard in range(3):
        wanted = [entry for at, entry in enumerate(entries(shard, 20)) if at // 3 % 4 >= 2]
        assert read_tar(tmp_path / "out" / f"{shard:05d}.tar") == wanted
    assert json.loads((tmp_path / "out" / "sizes.json").read_text()) == {
        f"{n:05d}.tar": 10 for n in range(3)
    }
    assert (tmp_path / "out" / "__len__").read_text() == "30\n"


def test_members_are_the_very_bytes_of_the_input_headers_included(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=1, samples=6)
    filter_shards(source, tmp_path / "out", LARGE, HERE)
    before, after = (tmp_path / where / "00000.tar" for where in ("in", "out"))
    data = before.read_bytes()
    parts = [
        data[row["offset"] : row["offset"] + row["size"]]
        for row in ledger(tmp_path / "out")
        if row["outcome"] == "kept"
    ]
    assert after.read_bytes() == b"".join(parts) + bytes(1024)


# Webdataset leaves its file open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_gnu_tar_and_webdataset_read_the_output(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=1)
    filter_shards(source, tmp_path / "out", LARGE, HERE)
    listed = subprocess.run(
        ["tar", "tf", tmp_path / "out" / "00000.tar"], capture_output=True, text=True, check=True
    )
    assert listed.stdout.split() == names(tmp_path / "out" / "00000.tar")
    assert listed.stderr == ""
    wds = pytest.importorskip("webdataset")
    samples = list(wds.WebDataset(str(tmp_path / "out" / "00000.tar"), shardshuffle=False))
    assert [
        sorted(set(sample) - {"__key__", "__url__", "__local_path__"}) for sample in samples
    ] == [["jpg", "json", "txt"]] * 10


def test_an_unreadable_image_costs_itself_and_is_put_aside_whole(tmp_path: Path):
    members = [
        (f"{n:04d}.{field}", data)
        for n in range(200)
        for field, data in (("jpg", picture(64, 64)), ("txt", b"a"))
    ]
    members[2 * 77] = ("0077.jpg", b"<html>not found</html>")
    write_tar(tmp_path / "0.tar", members)
    report = filter_shards(
        str(tmp_path / "0.tar"), tmp_path / "out", Recipe(where="min_side >= 20"), HERE
    )
    assert (report.total("kept"), report.merged("quarantined")) == (199, {"not-an-image": 1})
    assert (report.total("quarantined"), report.total("dropped")) == (1, 0)
    aside = tmp_path / "out" / ".wdsflow" / "quarantine"
    assert read_tar(aside / "0.tar") == members[154:156]
    line = json.loads((aside / "0.jsonl").read_text())
    assert (line["key"], line["error"], line["stage"], line["sample"]) == (
        "0077",
        "not-an-image",
        "min_side",
        77,
    )
    row = ledger(tmp_path / "out", "0")[77]
    assert (row["outcome"], row["error"], row["min_side"]) == ("quarantined", "not-an-image", None)
    assert row["failed"][0]["score"] == "min_side"


def test_what_is_told_of_an_image_is_the_same_in_each_run(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("a.jpg", b"\xff\xd8\xff junk"), ("a.txt", b"text")])
    filter_shards(str(tmp_path / "0.tar"), tmp_path / "out", Recipe(where="blur > 0"), HERE)
    (line,) = (tmp_path / "out" / ".wdsflow" / "quarantine" / "0.jsonl").read_text().splitlines()
    assert (
        json.loads(line)["detail"] == "field 'jpg': cannot identify image file <_io.BytesIO object>"
    )


@pytest.mark.parametrize(("unknown", "kept"), [("quarantine", 1), ("keep", 2), ("drop", 1)])
def test_what_stays_unknown_goes_where_the_recipe_says(tmp_path: Path, unknown, kept):
    write_tar(tmp_path / "0.tar", [("a.jpg", picture(64, 64)), ("b.jpg", b"broken")])
    recipe = Recipe(where="min_side >= 20", unknown=unknown)
    report = filter_shards(str(tmp_path / "0.tar"), tmp_path / "out", recipe, HERE)
    assert report.total("kept") == kept
    assert report.total("samples") == 2
    assert ledger(tmp_path / "out", "0")[1]["error"] == "not-an-image"


def test_the_ledger_tells_what_was_computed_and_why_a_sample_went(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=1, samples=8)
    recipe = Recipe(where="min_side >= 200 and caption_words >= 4")
    filter_shards(source, tmp_path / "out", recipe, HERE)
    rows = ledger(tmp_path / "out")
    assert [row["outcome"] for row in rows] == ["dropped"] * 3 + ["kept"] + ["dropped"] * 4
    assert [row["term"] for row in rows[:4]] == ["min_side >= 200"] * 2 + [
        "caption_words >= 4",
        None,
    ]
    assert rows[0]["caption_words"] is None
    assert (rows[2]["min_side"], rows[2]["caption_words"]) == (220.0, 3.0)
    about = json.loads(
        pq.read_schema(tmp_path / "out/.wdsflow/ledger/00000.parquet").metadata[b"wdsflow"]
    )
    assert about["recipe"]["where"] == recipe.where
    assert about["identities"]["min_side"]["name"] == "min_side"


@pytest.mark.deep
def test_any_number_of_workers_writes_the_same_bytes(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=4, samples=12)
    recipe = Recipe(where="min_side >= 200 and blur >= 0")
    filter_shards(source, tmp_path / "one", recipe, HERE)
    filter_shards(source, tmp_path / "three", recipe, RunOptions(jobs=3))
    assert digests(tmp_path / "one") == digests(tmp_path / "three")


def test_slices_that_share_a_folder_write_what_one_run_writes(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=5, samples=8)
    filter_shards(source, tmp_path / "one", LARGE, HERE)
    for index in (1, 0, 2):
        report = filter_shards(
            source, tmp_path / "slices", LARGE, RunOptions(jobs=0, index=index, count=3)
        )
        assert report.whole == (index == 2)
    assert digests(tmp_path / "one") == digests(tmp_path / "slices")


def test_a_second_call_does_nothing_again(tmp_path: Path):
    source = write_shards(tmp_path / "in")
    filter_shards(source, tmp_path / "out", LARGE, HERE)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("out/*.tar")}
    report = filter_shards(source, tmp_path / "out", LARGE, HERE)
    assert report.resumed == 3
    assert report.total("kept") == 30
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob("out/*.tar")}


@pytest.mark.deep
def test_an_input_that_changed_is_done_again_and_named(tmp_path: Path):
    source = write_shards(tmp_path / "in")
    filter_shards(source, tmp_path / "out", LARGE, HERE)
    write_tar(tmp_path / "in" / "00001.tar", entries(7, 20))
    report = filter_shards(source, tmp_path / "out", LARGE, HERE)
    assert report.resumed == 2
    assert len(report.changed) == 1
    assert "00001.tar: the input changed" in report.changed[0]
    assert names(tmp_path / "out" / "00001.tar")[0] == "0070002.jpg"


@pytest.mark.deep
def test_an_input_that_changed_is_named_where_samples_are_compared_too(tmp_path: Path):
    source, recipe = (
        write_shards(tmp_path / "in", shards=2, samples=4),
        Recipe(where="not duplicate"),
    )
    filter_shards(source, tmp_path / "out", recipe, HERE)
    before = digests(tmp_path / "out")
    (tmp_path / "in" / "00001.tar").write_bytes((tmp_path / "in" / "00000.tar").read_bytes())
    report = filter_shards(source, tmp_path / "out", recipe, HERE)
    assert "00001.tar: the input changed" in report.changed[0]
    assert [change.partition(".tar: ")[2] for change in report.changed[1:]] == [
        "its scores were computed again"
    ] * 2
    assert digests(tmp_path / "out") != before


@pytest.mark.deep
def test_an_output_that_is_not_what_was_written_is_done_again(tmp_path: Path):
    source = write_shards(tmp_path / "in")
    filter_shards(source, tmp_path / "out", LARGE, HERE)
    whole = digests(tmp_path / "out")
    (tmp_path / "out" / "00001.tar").write_bytes(b"")
    (tmp_path / "out" / "00002.tar").unlink()
    report = filter_shards(source, tmp_path / "out", LARGE, HERE)
    assert (report.resumed, len(report.changed)) == (1, 2)
    assert digests(tmp_path / "out") == whole


def test_another_recipe_is_refused_by_name_until_restart(tmp_path: Path):
    source = write_shards(tmp_path / "in")
    filter_shards(source, tmp_path / "out", LARGE, HERE)
    (tmp_path / "out" / "mine.txt").write_text("stays")
    other = Recipe(where="min_side >= 250")
    with pytest.raises(
        Differs,
        match="holds a filter with --where 'min_side >= 200'; this run has --where 'min_side >= 250'",
    ):
        filter_shards(source, tmp_path / "out", other, HERE)
    report = filter_shards(source, tmp_path / "out", other, RunOptions(jobs=0, restart=True))
    assert (report.resumed, report.total("kept")) == (0, 15)
    filter_shards(source, tmp_path / "fresh", other, HERE)
    assert (tmp_path / "out" / "mine.txt").read_text() == "stays"
    (tmp_path / "out" / "mine.txt").unlink()
    assert digests(tmp_path / "out") == digests(tmp_path / "fresh")


def test_a_run_goes_on_under_another_version_of_ours(tmp_path: Path, monkeypatch):
    source = write_shards(tmp_path / "in")
    filter_shards(source, tmp_path / "out", LARGE, HERE)
    monkeypatch.setattr("wdsflow.version.__version__", "99.0")
    assert filter_shards(source, tmp_path / "out", LARGE, HERE).resumed == 3


def test_files_of_others_and_inputs_are_never_replaced(tmp_path: Path):
    source = write_shards(tmp_path / "in")
    with pytest.raises(FileExistsError, match="is an input"):
        filter_shards(source, tmp_path / "in", LARGE, HERE)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "00001.tar").write_bytes(b"precious")
    with pytest.raises(FileExistsError, match="no run wrote it"):
        filter_shards(source, tmp_path / "out", LARGE, RunOptions(jobs=0, restart=True))
    assert (tmp_path / "out" / "00001.tar").read_bytes() == b"precious"


def test_a_second_run_in_the_same_folder_is_refused(tmp_path: Path, monkeypatch):
    source = write_shards(tmp_path / "in")
    filter_shards(source, tmp_path / "out", LARGE, HERE)
    with (
        Lock(tmp_path / "out" / ".wdsflow" / "lock"),
        pytest.raises(Busy, match="another run works in"),
    ):
        Lock(tmp_path / "out" / ".wdsflow" / "lock", patience=0)
    filter_shards(source, tmp_path / "out", LARGE, HERE)


def test_a_dry_run_writes_nothing_and_tells_the_same(tmp_path: Path):
    source = write_shards(tmp_path / "in")
    dry = filter_shards(source, tmp_path / "out", LARGE, RunOptions(jobs=0, dry_run=True))
    assert not (tmp_path / "out").exists()
    wet = filter_shards(source, tmp_path / "out", LARGE, HERE)
    assert dry.merged("dropped") == wet.merged("dropped")
    assert dry.total("kept") == wet.total("kept") == 30


def test_compressed_shards_become_plain_ones_with_the_same_members(tmp_path: Path):
    write_shards(tmp_path / "in", shards=1)
    data = (tmp_path / "in" / "00000.tar").read_bytes()
    (tmp_path / "in" / "00000.tar.gz").write_bytes(gzip.compress(data, mtime=0))
    filter_shards(str(tmp_path / "in" / "00000.tar"), tmp_path / "plain", LARGE, HERE)
    report = filter_shards(str(tmp_path / "in" / "00000.tar.gz"), tmp_path / "packed", LARGE, HERE)
    assert report.total("kept") == 10
    assert (tmp_path / "plain" / "00000.tar").read_bytes() == (
        tmp_path / "packed" / "00000.tar"
    ).read_bytes()
    assert not (tmp_path / "packed" / ".wdsflow" / "spool").exists()


def test_remote_shards_are_filtered_too(tmp_path: Path):
    import fsspec

    write_shards(tmp_path / "in", shards=1)
    with fsspec.open("memory://filter/00000.tar", "wb") as file:
        file.write((tmp_path / "in" / "00000.tar").read_bytes())
    report = filter_shards("memory://filter/00000.tar", tmp_path / "out", LARGE, HERE)
    assert report.total("kept") == 10
    filter_shards(str(tmp_path / "in"), tmp_path / "plain", LARGE, HERE)
    assert (tmp_path / "plain" / "00000.tar").read_bytes() == (
        tmp_path / "out" / "00000.tar"
    ).read_bytes()


def test_a_shard_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=3)
    (tmp_path / "in" / "00001.tar").unlink()
    shards = f"{source}/{{00000..00002}}.tar"
    report = filter_shards(shards, tmp_path / "out", LARGE, HERE)
    assert [failure.url for failure in report.failures] == [f"{source}/00001.tar"]
    assert "no such file" in report.failures[0].reason
    assert report.total("kept") == 20
    assert not report.whole
    write_tar(tmp_path / "in" / "00001.tar", entries(1, 20))
    again = filter_shards(shards, tmp_path / "out", LARGE, HERE)
    assert (again.resumed, again.total("kept"), again.whole) == (2, 30, True)


def test_a_shard_that_cannot_be_read_is_waited_for_where_all_samples_are_compared(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=3)
    (tmp_path / "in" / "00001.tar").unlink()
    shards = f"{source}/{{00000..00002}}.tar"
    recipe = Recipe(where="min_side >= 200 and not duplicate")
    report = filter_shards(shards, tmp_path / "out", recipe, HERE)
    assert report.waits_for == ("duplicate",)
    assert not report.records
    assert "nothing was decided: duplicate compares the samples of all shards" in str(report)
    write_tar(tmp_path / "in" / "00001.tar", entries(1, 20))
    again = filter_shards(shards, tmp_path / "out", recipe, HERE)
    assert again.whole
    assert again.waits_for == ()
    assert again.total("kept")


def test_scattered_samples_are_put_aside(tmp_path: Path):
    image = picture(300, 300)
    write_tar(
        tmp_path / "0.tar", [("a.jpg", image), ("b.jpg", image), ("b.txt", b"b"), ("a.txt", b"a")]
    )
    report = filter_shards(
        str(tmp_path / "0.tar"), tmp_path / "out", Recipe(where='key != "z"'), HERE
    )
    assert (report.total("samples"), report.merged("quarantined")) == (3, {"scattered": 2})
    assert names(tmp_path / "out" / "0.tar") == ["b.jpg", "b.txt"]


def test_samples_of_one_key_are_not_brought_together_by_dropping_what_stood_between(tmp_path: Path):
    large, small = picture(300, 300), picture(64, 64)
    write_tar(tmp_path / "0.tar", [("a.jpg", large), ("b.jpg", small), ("a.jpg", large)])
    report = filter_shards(str(tmp_path / "0.tar"), tmp_path / "out", LARGE, HERE)
    assert report.merged("quarantined") == {"same-key": 1}
    assert names(tmp_path / "out" / "0.tar") == ["a.jpg"]


@pytest.mark.parametrize(("empty", "there"), [("leave-out", False), ("write", True)])
def test_shards_of_which_nothing_is_kept_are_left_out_or_written(tmp_path: Path, empty, there):
    source = write_shards(tmp_path / "in", shards=1)
    filter_shards(source, tmp_path / "out", Recipe(where="min_side > 9999", empty=empty), HERE)
    target = tmp_path / "out" / "00000.tar"
    assert target.exists() == there
    assert json.loads((tmp_path / "out" / "sizes.json").read_text()) == (
        {"00000.tar": 0} if there else {}
    )
    if there:
        assert target.read_bytes() == bytes(1024)


def test_a_cut_by_a_ledger_writes_what_a_filter_writes_and_reads_no_image(tmp_path: Path):
    source = write_shards(tmp_path / "in")
    scored = measure_shards(
        source, tmp_path / "scores", Recipe(scores=("min_side", "caption_words")), HERE
    )
    assert scored.total("samples") == 60
    assert not list((tmp_path / "scores").glob("*.tar"))
    recipe = Recipe(where="min_side >= 200 and caption_words >= 2")
    filter_shards(source, tmp_path / "cut", recipe, HERE, ledger=tmp_path / "scores")
    filter_shards(source, tmp_path / "filtered", recipe, HERE)
    assert kept_of(tmp_path / "cut") == kept_of(tmp_path / "filtered")
    assert [path.name for path in sorted((tmp_path / "cut").glob("*.tar"))] == [
        "00000.tar",
        "00001.tar",
        "00002.tar",
    ]


@pytest.mark.deep
def test_what_a_ledger_lacks_is_computed_and_a_changed_shard_is_a_failure(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=1)
    with pytest.raises(LedgerError, match="has no ledgers"):
        filter_shards(source, tmp_path / "cut", LARGE, HERE, ledger=tmp_path / "none")
    measure_shards(source, tmp_path / "scores", Recipe(scores=("caption_words",)), HERE)
    filter_shards(source, tmp_path / "plain", Recipe(where="blur > 2"), HERE)
    filter_shards(source, tmp_path / "some", Recipe(where="blur > 1 and min_side >= 200"), HERE)
    # Some samples of the second were decided without the blur.
    for ledger in ("scores", "some"):
        filter_shards(
            source,
            tmp_path / ledger / "out",
            Recipe(where="blur > 2"),
            HERE,
            ledger=tmp_path / ledger,
        )
        assert kept_of(tmp_path / ledger / "out") == kept_of(tmp_path / "plain")
    write_tar(tmp_path / "in" / "00000.tar", entries(3, 20))
    report = filter_shards(
        source,
        tmp_path / "cut2",
        Recipe(where="caption_words > 1"),
        HERE,
        ledger=tmp_path / "scores",
    )
    assert "has changed since" in report.failures[0].reason


def test_a_cut_goes_on_without_a_shard_that_could_not_be_scored(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=2)
    (tmp_path / "in" / "00001.tar").write_bytes(b"<html>404</html>")
    assert measure_shards(
        source, tmp_path / "scores", Recipe(scores=("min_side", "duplicate")), HERE
    ).failures
    measure_shards(source, tmp_path / "some", Recipe(scores=("min_side",)), HERE)
    report = filter_shards(source, tmp_path / "cut", LARGE, HERE, ledger=tmp_path / "some")
    assert ([failure.name for failure in report.failures], report.total("kept")) == (
        ["00001.tar"],
        10,
    )
    filter_shards(source, tmp_path / "filtered", LARGE, HERE)
    assert kept_of(tmp_path / "cut") == kept_of(tmp_path / "filtered")
    with pytest.raises(LedgerError, match=r"has no ledger of 00000\.tar and 1 more"):
        filter_shards(source, tmp_path / "cut2", LARGE, HERE, ledger=tmp_path / "scores")
    write_tar(tmp_path / "in" / "00001.tar", entries(1, 20))
    measure_shards(source, tmp_path / "scores", Recipe(scores=("min_side", "duplicate")), HERE)
    (tmp_path / "scores" / ".wdsflow" / "ledger" / "00001.parquet").unlink()
    # It may hold the first of two.
    with pytest.raises(LedgerError, match=r"scores has no ledger of 00001\.tar: measure"):
        filter_shards(
            source,
            tmp_path / "cut3",
            Recipe(where="not duplicate"),
            HERE,
            ledger=tmp_path / "scores",
        )


def test_duplicates_are_found_over_all_shards_among_those_that_other_terms_leave(tmp_path: Path):
    one, two, small = picture(300, 300, 1), picture(300, 300, 2), picture(64, 64)
    write_tar(
        tmp_path / "0.tar",
        [
            ("a.jpg", one),
            ("a.txt", b"x"),
            ("b.jpg", two),
            ("b.txt", b"long enough"),
            ("c.jpg", small),
        ],
    )
    write_tar(
        tmp_path / "1.tar",
        [("d.jpg", one), ("d.txt", b"long enough"), ("e.jpg", two), ("e.txt", b"also long")],
    )
    recipe = Recipe(where="caption_words >= 2 and not duplicate(among='kept')")
    report = filter_shards(str(tmp_path / "{0..1}.tar"), tmp_path / "out", recipe, HERE)
    assert [name for name in kept_of(tmp_path / "out") if name.endswith("jpg")] == [
        "b.jpg",
        "d.jpg",
    ]
    assert report.merged("dropped") == {"caption_words >= 2": 1, 'not duplicate(among="kept")': 1}
    assert report.merged("quarantined") == {"no-caption": 1}
    again = filter_shards(str(tmp_path / "{0..1}.tar"), tmp_path / "out", recipe, HERE)
    assert again.resumed == 2
    before = digests(tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    filter_shards(str(tmp_path / "{0..1}.tar"), tmp_path / "out", recipe, RunOptions(jobs=2))
    assert digests(tmp_path / "out") == before


def test_a_sample_that_is_put_aside_hides_no_sample_like_it(tmp_path: Path):
    image = picture(300, 300)
    write_tar(
        tmp_path / "0.tar",
        [("a.jpg", image), ("b.jpg", image), ("b.txt", b"two words"), ("c.jpg", image)],
    )
    recipe = Recipe(where="not duplicate(among='kept') and caption_words >= 2")
    report = filter_shards(str(tmp_path / "0.tar"), tmp_path / "out", recipe, HERE)
    assert (report.total("kept"), report.merged("quarantined")) == (1, {"no-caption": 2})
    assert names(tmp_path / "out" / "0.tar") == ["b.jpg", "b.txt"]
    assert report.merged("failed") == {"caption_words: no-caption": 2}
    cut = Recipe(
        where="not duplicate(among='kept') and (caption_words is None or caption_words < 9)"
    )
    again = filter_shards(
        str(tmp_path / "0.tar"), tmp_path / "cut", cut, HERE, ledger=tmp_path / "out"
    )
    assert again.merged("dropped") == {'not duplicate(among="kept")': 2}
    assert names(tmp_path / "cut" / "0.tar") == ["a.jpg"]


@pytest.mark.parametrize(
    ("unknown", "kept"), [("keep", ["a.jpg", "b.jpg"]), ("quarantine", []), ("drop", [])]
)
def test_a_sample_that_stays_unknown_whatever_is_compared_is_compared_only_where_it_is_kept(
    tmp_path, unknown, kept
):
    image = picture(300, 300)
    write_tar(
        tmp_path / "0.tar",
        [("a.jpg", image), ("b.jpg", image), ("c.jpg", picture(64, 64)), ("c.txt", b"c")],
    )
    recipe = Recipe(
        where="(width > 1 or duplicate(among='kept')) and caption_words > 1", unknown=unknown
    )
    report = filter_shards(str(tmp_path / "0.tar"), tmp_path / "out", recipe, HERE)
    assert list(kept_of(tmp_path / "out")) == kept
    assert report.total("kept") == len(kept)
    again = Recipe(where="not duplicate(among='kept') or caption_words > 1", unknown=unknown)
    filter_shards(str(tmp_path / "0.tar"), tmp_path / "again", again, HERE)
    assert list(kept_of(tmp_path / "again")) == ["a.jpg", *kept[1:], "c.jpg", "c.txt"]


@pytest.mark.deep
def test_a_ledger_of_all_scores_has_those_that_compare_samples(tmp_path: Path):
    one, two = picture(300, 300, 1), picture(300, 300, 2)
    write_tar(tmp_path / "0.tar", [("a.jpg", one), ("b.jpg", two), ("c.jpg", one)])
    measure_shards(
        str(tmp_path / "0.tar"), tmp_path / "scores", Recipe(scores=("duplicate", "min_side")), HERE
    )
    assert [row["duplicate"] for row in ledger(tmp_path / "scores", "0")] == [False, False, True]
    filter_shards(
        str(tmp_path / "0.tar"),
        tmp_path / "cut",
        Recipe(where="not duplicate"),
        HERE,
        ledger=tmp_path / "scores",
    )
    assert names(tmp_path / "cut" / "0.tar") == ["a.jpg", "b.jpg"]


def test_a_wrong_predicate_is_told_before_anything_is_written(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=1)
    with pytest.raises(ExpressionError, match="did you mean min_side"):
        filter_shards(source, tmp_path / "out", Recipe(where="minside > 3"), HERE)
    assert not (tmp_path / "out").exists()


def test_hashes_of_images_are_xxh3_of_their_bytes(tmp_path: Path):
    import xxhash

    source = write_shards(tmp_path / "in", shards=1, samples=4)
    filter_shards(source, tmp_path / "out", Recipe(where="min_side >= 1", hash_images=True), HERE)
    wanted = [
        xxhash.xxh3_128_hexdigest(data) for name, data in entries(0, 4) if name.endswith("jpg")
    ]
    assert [row["image_xxh3"] for row in ledger(tmp_path / "out")] == wanted


def test_values_of_several_images_are_kept_side_by_side(tmp_path: Path):
    members = [
        ("a.0.jpg", picture(100, 100)),
        ("a.1.jpg", picture(50, 60)),
        ("b.0.jpg", picture(90, 90)),
    ]
    write_tar(tmp_path / "0.tar", members)
    filter_shards(str(tmp_path / "0.tar"), tmp_path / "out", Recipe(where="min_side >= 80"), HERE)
    first, second = ledger(tmp_path / "out", "0")
    assert (first["min_side"], json.loads(first["several"])) == (None, {"min_side": [100, 50]})
    assert (second["min_side"], second["several"]) == (90.0, None)
    filter_shards(
        str(tmp_path / "0.tar"),
        tmp_path / "cut",
        Recipe(where="any(min_side >= 80)"),
        HERE,
        ledger=tmp_path / "out",
    )
    assert len(read_tar(tmp_path / "cut" / "0.tar")) == 3


def test_global_headers_reach_the_output(tmp_path: Path):
    with tarfile.open(
        tmp_path / "0.tar", "w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "made by me"}
    ) as tar:
        for name, side in (("a.jpg", 64), ("b.jpg", 300)):
            info = tarfile.TarInfo(name)
            data = picture(side, side)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    filter_shards(str(tmp_path / "0.tar"), tmp_path / "out", LARGE, HERE)
    with tarfile.open(tmp_path / "out" / "0.tar") as tar:
        assert tar.getnames() == ["b.jpg"]
        assert tar.pax_headers["comment"] == "made by me"


def test_a_global_header_is_not_written_where_no_sample_follows(tmp_path: Path):
    settings: dict[str, Any] = {
        "format": tarfile.PAX_FORMAT,
        "pax_headers": {"comment": "made by me"},
    }
    shard = b""
    for name, side in (("a.jpg", 300), ("b.jpg", 64)):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", **settings) as tar:
            info = tarfile.TarInfo(name)
            data = picture(side, side)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
            shard += stream.getvalue()[: tar.offset]  # one archive with two global headers
    (tmp_path / "0.tar").write_bytes(shard + bytes(1024))
    for where, kept in (
        ("width >= 200", ["a.jpg"]),
        ("width >= 900", []),
        ("width < 200", ["b.jpg"]),
    ):
        out = tmp_path / f"out{len(where)}{kept}"
        filter_shards(str(tmp_path / "0.tar"), out, Recipe(where=where, empty="write"), HERE)
        with tarfile.open(out / "0.tar", "r|") as tar:
            assert tar.getnames() == kept


def test_pixels_of_the_ledger_are_numbers(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=1, samples=4)
    measure_shards(source, tmp_path / "out", Recipe(scores=("blur", "brightness")), HERE)
    rows = ledger(tmp_path / "out")
    assert np.isfinite([row["blur"] for row in rows]).all()
    assert {row["outcome"] for row in rows} == {"kept"}
