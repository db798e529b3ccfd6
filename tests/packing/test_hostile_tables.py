"""Broken tables of all kinds: each row is packed, or reported with its column.

A partial shard never looks complete.
"""

import errno
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.packing.tables import jpeg, packed, write_images, write_lines
from wdsflow import pack_shards
from wdsflow.packing.files.local_files import LocalFiles
from wdsflow.packing.shard.write_shard import write_shard
from wdsflow.pieces.tar_members import header
from wdsflow.shards.source.base import SourceError
from wdsflow.table_files.errors import NoColumn, TableError
from wdsflow.table_files.text_rows import array_objects

GOOD = {"image": "img/0.jpg", "caption": "good"}
ROWS = {  # of one row: its value, the reason, and what is said
    "..": ("image", "../outside.jpg", "outside of the root", "'../outside.jpg' is not in "),
    ".. through a folder": ("image", "img/../../outside.jpg", "outside of the root", "is not in "),
    ".. as the name": ("image", "img/../..", "outside of the root", "'img/../..' is not in "),
    "absolute": ("image", "/etc/passwd", "outside of the root", "--root names the folder"),
    "link that leaves": ("image", "img/out.jpg", "outside of the root", "'img/out.jpg' is not in "),
    "link of a folder that leaves": (
        "image",
        "img/up/outside.jpg",
        "outside of the root",
        "is not in ",
    ),
    "link to itself": ("image", "img/loop.jpg", "missing file", "symbolic links"),
    "missing": ("image", "img/none.jpg", "missing file", "'img/none.jpg'"),
    "below a file": ("image", "img/0.jpg/x", "missing file", "'img/0.jpg/x'"),
    "a folder": ("image", "img", "missing file", "'img' is a folder"),
    "a folder by its dots": ("image", "img/..", "missing file", "'img/..' is a folder"),
    "half a pair": ("image", "img/\ud800.jpg", "missing file", "surrogates not allowed"),
    "a pipe": ("image", "img/fifo", "missing file", "special file"),
    "too long": ("image", "x" * 5000, "missing file", "too long"),
    "NUL": ("image", "img/\0.jpg", "not a path", "has a NUL"),
    "url": (
        "image",
        "https://host/a.jpg",
        "not a path",
        "'https://host/a.jpg' is a url: pack reads files; img2dataset downloads images",
    ),
    "number": ("image", 7, "not a path", "7 is a number"),
    "object": ("image", {"url": 7, "path": 8}, "not a path", "is an object"),
    "list with a hole": ("image", ["img/0.jpg", None], "not a path", "empty item"),
    "list with a number": ("image", ["img/0.jpg", 7], "not a path", "7 is a number"),
    "nothing": ("image", None, "no image", "it is empty"),
    "empty list": ("image", [], "no image", "it is empty"),
    "text": ("image", "img/page.jpg", "not an image or video", "begins with b'<html>'"),
    "empty file": ("image", "img/empty.jpg", "not an image or video", "it is empty"),
    "one of a list": ("image", ["img/0.jpg", "img/page.jpg"], "not an image or video", "<html>"),
    "caption of more than a MiB": (
        "caption",
        "x" * ((1 << 20) + 1),
        "caption longer than 1 MiB",
        f"'{'x' * 39}... has 1,048,577 bytes",
    ),
    "caption of numbers": ("caption", [1, 2], "caption that is not text", "1 is a number"),
    "caption of half a pair": ("caption", "\ud800", "caption that is not text", "is not UTF-8"),
    "blank caption": ("caption", " \n", "no caption", "it is empty"),
    "no key": ("id", "", "no key", "it is empty"),
    "key of a list": ("id", ["a"], "key that is not text", "['a'] is a list"),
    "key that is true": ("id", True, "key that is not text", "True is"),
    "key of another row": ("id", "same", "repeated key", "'same', as row 1"),
    "key that becomes that of another row": (
        "id",
        "same\u202e",
        "repeated key",
        "'same_', as row 2",
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    write_images(root, 3)
    (tmp_path / "outside.jpg").write_bytes(jpeg())
    (root / "img/out.jpg").symlink_to(tmp_path / "outside.jpg")
    (root / "img/up").symlink_to(tmp_path)
    (root / "img/loop.jpg").symlink_to("loop.jpg")
    (root / "img/page.jpg").write_bytes(b"<html>")
    (root / "img/empty.jpg").touch()
    os.mkfifo(root / "img/fifo")
    return root


def test_wrong_rows_are_left_out_and_named_with_their_columns(folder: Path):
    right = [{**GOOD, "id": "same"}, {**GOOD, "id": "same_"}]
    wrong = [
        {**GOOD, "id": f"row {number}", column: value}
        for number, (column, value, _, _) in enumerate(ROWS.values(), 3)
    ]
    table = write_lines(folder / "t.jsonl", [*right, *wrong, {**GOOD, "id": "last"}])
    report = pack_shards(table, folder.parent / "out", key="id")
    assert list(packed(folder.parent / "out")) == ["same", "same_", "last"]
    left_out = Counter(reason for _, _, reason, _ in ROWS.values())
    assert (report.rows, report.samples, report.left_out) == (len(ROWS) + 3, 3, left_out)
    listed = (folder.parent / "out/.wdsflow/pack-left-out.jsonl").read_text().splitlines()
    # No path is longer than a file system allows.
    assert not any("x" * 4097 in line for line in listed)
    by_row = {facts["row"]: facts for facts in map(json.loads, listed)}
    found = [(row, by_row[row]["column"], by_row[row]["reason"]) for row in sorted(by_row)]
    assert found == [
        (row, column, reason) for row, (column, _, reason, _) in enumerate(ROWS.values(), 3)
    ]
    for row, (column, _, reason, message) in enumerate(ROWS.values(), 3):
        assert message in by_row[row]["detail"]
        if row in [example.row for example in report.examples[reason]]:
            assert f"t.jsonl, row {row:,}, column {column}: {by_row[row]['detail']}" in str(report)
    tried = pack_shards(table, folder.parent / "none", key="id", dry_run=True)
    assert (tried.rows, tried.samples, tried.left_out) == (len(ROWS) + 3, 3, left_out)
    assert not (folder.parent / "none").exists()


GOOD_ROWS = {
    "lists of 100 images": {"image": ["img/0.jpg", "img/1.jpg"] * 50},
    "unicode keys": {"id": "Étoile/日本 ü"},
    "a link that stays": {"image": "img/inside.jpg"},
    "dots that stay": {"image": "img/../img/1.jpg"},
    "a caption of lines": {"caption": "a\nb\0"},
    "a value that JSON lacks": {"more": 1 << 80},
    "several captions": {"caption": [" ", "second"]},
}


def test_odd_rows_that_are_right_are_packed(folder: Path):
    (folder / "img/inside.jpg").symlink_to("2.jpg")
    rows = [{**GOOD, "id": name, **row} for name, row in GOOD_ROWS.items()]
    rows.append({**GOOD, "id": "a url of a file", "image": f"file://{folder}/img/1.jpg"})
    report = pack_shards(write_lines(folder / "t.jsonl", rows), folder.parent / "out", key="id")
    assert (report.samples, dict(report.left_out)) == (len(rows), {})
    found = packed(folder.parent / "out")
    assert list(found) == [row["id"] for row in rows]
    for row in rows:
        sample = found[row["id"]]
        assert len([each for each in sample if each.endswith("jpg")]) == (
            100 if isinstance(row["image"], list) else 1
        )
        caption = row["caption"] if isinstance(row["caption"], str) else "second"
        assert sample["txt"] == caption.encode()
        facts = {name: value for name, value in row.items() if name != "caption"}
        assert json.loads(sample["json"]) == facts
    assert found["a url of a file"]["jpg"] == jpeg(1)
    assert found["a link that stays"]["jpg"] == jpeg(2)


def test_absolute_paths_below_the_root_and_another_root(folder: Path):
    rows = [
        {**GOOD, "image": str(folder / "img/1.jpg")},
        {**GOOD, "image": str(folder.parent / "outside.jpg")},
    ]
    table = write_lines(folder / "t.jsonl", rows)
    assert dict(pack_shards(table, folder.parent / "a").left_out) == {"outside of the root": 1}
    assert dict(pack_shards(table, folder.parent / "b", root=str(folder.parent)).left_out) == {}
    with pytest.raises(TableError, match="there is no folder nowhere"):
        pack_shards(table, folder.parent / "c", root="nowhere")


BROKEN = {
    "empty.jsonl": ("", "empty.jsonl has no rows"),
    "blank.csv": ("\n", "blank.csv has no rows"),
    "header.csv": ("image,caption\n", "header.csv has no rows"),
    "cut.jsonl": (
        '{"image": "img/0.jpg", "caption": "x"}\n{"image": "im',
        "cut.jsonl, line 2 is not JSON",
    ),
    "list.jsonl": ("[1, 2]\n", "list.jsonl, line 1 is not an object of JSON"),
    "wide.csv": (
        "image,caption\nimg/0.jpg,a\nimg/0.jpg,a,b\n",
        "wide.csv, line 3 has 3 fields instead of 2",
    ),
    "quote.csv": ('image,caption\nimg/0.jpg,"a\n', "quote.csv, line 2"),
    "cut.json": (
        '[{"image": "img/0.jpg", "caption": "x"}, {"image"',
        "cut.json, row 2 is not JSON",
    ),
    "no.parquet": ("PAR1", "no.parquet is not a Parquet file"),
    "no.zip": ("PK", "no.zip is not a zip"),
    "t.xlsx": ("x", "t.xlsx: its kind is not known: tables end in"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_is_no_table_is_refused_with_its_line(folder: Path, name):
    text, message = BROKEN[name]
    (folder / name).write_text(text)
    with pytest.raises((TableError, OSError)) as error:
        pack_shards(str(folder / name), folder.parent / "out")
    assert message in str(error.value)
    assert not (folder.parent / "out").exists()


def test_a_row_without_a_newline_is_a_row(folder: Path):
    (folder / "t.jsonl").write_text(json.dumps(GOOD))
    (folder / "t.csv").write_text("image,caption\nimg/0.jpg,good")
    for number, name in enumerate(("t.jsonl", "t.csv")):
        assert pack_shards(str(folder / name), folder.parent / str(number)).samples == 1


def test_if_every_row_is_left_out_nothing_is_written(folder: Path):
    for number, image in enumerate(("img/none.jpg", "img/page.jpg")):
        out = folder.parent / str(number)
        report = pack_shards(write_lines(folder / "t.jsonl", [{**GOOD, "image": image}] * 3), out)
        assert (report.samples, report.left_out.total(), report.damaged) == (0, 3, 3)
        assert list(out.glob("*.tar")) == []
        assert not (out / "sizes.json").exists()
        assert "no samples: nothing written" in str(report)


def test_a_file_that_changes_while_it_is_packed_ends_the_run(folder: Path, monkeypatch):
    def later(job, *rest):
        if job.target.name == "00001.tar":
            (folder / "img/1.jpg").write_bytes(jpeg(7) * 2)
        return write_shard(job, *rest)

    rows = [{**GOOD, "image": f"img/{n}.jpg"} for n in range(3)]
    table, out = write_lines(folder / "t.jsonl", rows), folder.parent / "out"
    with monkeypatch.context() as patch:
        patch.setattr("wdsflow.packing.run_pack.write_shard", later)
        with pytest.raises(OSError, match="changed while it was read"):
            pack_shards(table, out, samples=1, jobs=1)
    assert not (out / "00001.tar").exists()
    assert not (out / "sizes.json").exists()
    report = pack_shards(table, out, samples=1)
    assert report.resumed >= 1
    assert report.samples == 3
    assert packed(out)["00000002"]["jpg"] == jpeg(7) * 2


FAULTS = {
    errno.EMFILE: False,
    errno.EIO: False,
    errno.ESTALE: False,
    errno.EACCES: True,
    errno.ELOOP: True,
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("number", FAULTS)
@pytest.mark.parametrize("function", ["open", "lstat"])
def test_only_faults_of_a_file_leave_its_row_out(folder: Path, monkeypatch, number, function):
    """All others end the run: a row would be lost for good, though its file is right."""
    real = getattr(os, function)

    def failing(path, *rest, **options):
        if str(path).endswith("1.jpg"):
            raise OSError(number, os.strerror(number), path)
        return real(path, *rest, **options)

    table = write_lines(folder / "t.jsonl", [{**GOOD, "image": f"img/{n}.jpg"} for n in range(3)])
    with monkeypatch.context() as patch:
        patch.setattr(os, function, failing)
        if FAULTS[number]:
            assert pack_shards(table, folder.parent / "out").left_out.total() == 1
            return
        with pytest.raises(SourceError, match=os.strerror(number)):
            pack_shards(table, folder.parent / "out")
    assert pack_shards(table, folder.parent / "out").samples == 3


@pytest.mark.deep
def test_files_of_a_row_are_not_all_open_nor_all_in_memory(folder: Path, monkeypatch):
    for number in range(3):
        (folder / f"img/{number}.jpg").write_bytes(jpeg(number) + bytes(2 << 20))
    read = []

    def spied(self, ref, most, opened=LocalFiles.open):
        read.append((opened(self, ref, most), len(os.listdir("/proc/self/fd"))))
        return read[-1][0]

    monkeypatch.setattr(LocalFiles, "open", spied)
    images = [f"img/{n % 3}.jpg" for n in range(100)]
    report = pack_shards(
        write_lines(folder / "t.jsonl", [{**GOOD, "image": images}]), folder.parent / "out"
    )
    assert (report.samples, len(read)) == (1, 100)
    assert sum(len(opened.first) for opened, _ in read) < 8 << 20
    assert read[0][1] == read[-1][1]
    assert packed(folder.parent / "out")["00000001"]["99.jpg"] == jpeg(0) + bytes(2 << 20)


def test_rows_of_a_store_are_requested_ahead_by_files(folder: Path, monkeypatch):
    """A row of 100 images counts as 100 files."""
    requested, written = [0], []

    class Remote(LocalFiles):
        has_sizes = False

        def open(self, ref, most):
            requested[0] += 1
            return super().open(ref, most)

    def noted(name, size):
        written.append(requested[0])
        return header(name, size)

    monkeypatch.setattr("wdsflow.packing.files.root_files.LocalFiles", Remote)
    monkeypatch.setattr("wdsflow.packing.shard.write_shard.header", noted)
    images = [f"img/{n % 3}.jpg" for n in range(100)]
    table = write_lines(folder / "t.jsonl", [{**GOOD, "image": images}] * 5)
    assert pack_shards(table, folder.parent / "out").samples == 5
    assert written[0] <= 100
    assert requested == [500]


TEXTS = {
    "two arrays": (
        '[{"image": "img/0.jpg", "caption": "a"}]\n[{"image": "img/1.jpg", "caption": "b"}]',
        "which has 1 row",
    ),
    "an empty one first": ("[] [1]", "which has 0 rows"),
    "far behind": ("[]" + " " * (3 << 20) + "x", "which has 0 rows"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_follows_the_end_of_an_array_is_refused(folder: Path, name):
    text, message = TEXTS[name]
    (folder / "t.json").write_text(text)
    with pytest.raises(TableError, match=f"more follows the end of its array, {message}"):
        list(array_objects(folder / "t.json"))
    (folder / "t.json").write_text('[{"image": "img/0.jpg", "caption": "a"}]' + " \n" * (2 << 20))
    assert len(list(array_objects(folder / "t.json"))) == 1


REPEATED = {
    "t.csv": "image,note,note,caption\nimg/0.jpg,a,b,c\n",
    "t.tsv": "image\tnote\tnote\nimg/0.jpg\ta\tb\n",
}


@pytest.mark.parametrize("name", REPEATED)
def test_two_columns_of_one_name_are_refused(folder: Path, name):
    (folder / name).write_text(REPEATED[name])
    with pytest.raises(NoColumn, match="has 2 columns 'note'"):
        pack_shards(str(folder / name), folder.parent / "out")
    (folder / name).write_text(REPEATED[name].replace("note", ""))
    with pytest.raises(TableError, match="has 2 columns without a name"):
        pack_shards(str(folder / name), folder.parent / "out")


def test_numbers_that_json_lacks_are_null_next_to_large_ones(folder: Path):
    (folder / "t.jsonl").write_text(
        '{"image": "img/0.jpg", "caption": "a", "n": [NaN, {"x": -Infinity}], "large": 1%s}'
        % ("0" * 30)
    )
    pack_shards(str(folder / "t.jsonl"), folder.parent / "out")
    facts = json.loads(
        packed(folder.parent / "out")["00000001"]["json"], parse_constant=pytest.fail
    )
    assert (facts["n"], facts["large"]) == ([None, {"x": None}], 10**30)


def test_keys_are_repeated_only_if_they_are_the_same_text(folder: Path):
    rows = [{**GOOD, "id": name} for name in ("a", "b", "a")]
    report = pack_shards(write_lines(folder / "t.jsonl", rows), folder.parent / "out", key="id")
    assert (list(packed(folder.parent / "out")), dict(report.left_out)) == (
        ["a", "b"],
        {"repeated key": 1},
    )
