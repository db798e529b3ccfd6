"""Folders and zips without a table."""

import json
import shutil
import tarfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.packing.tables import jpeg, packed
from wdsflow import pack_shards
from wdsflow.packing.files.local_files import LocalFiles
from wdsflow.packing.files.media_files import FIRST
from wdsflow.packing.rows.folder_rows import HoldsTables
from wdsflow.shards.source.base import SourceError
from wdsflow.table_files.errors import TableError

PAIRS = {
    "a/0.jpg": jpeg(0),
    "a/0.txt": b"zero",
    "a/0.json": b'{"n": 0}',
    "a/1.v2.jpg": jpeg(1),
    "a/1.v2.txt": b"one",
    "a/2.jpg": jpeg(2),
    "a/3.jpg": jpeg(3),
    "a/3.txt": b" \n",
    "a/4.txt": b"no image",
    "a/5.jpg": b"<html>",
    "a/5.txt": b"five",
    "a/6.jpg": jpeg(6),
    "a/6.txt": b"\xff\xfe",
    "a/7.jpg": jpeg(7),
    "a/7.txt": b"seven",
    "a/7.json": b"{",
    "a/.DS_Store": b"x",
    "__MACOSX/a/._0.jpg": b"x",
    "README.md": b"# words",
}
LEFT_OUT = {
    "no caption": 2,
    "no image": 1,
    "not an image or video": 1,
    "caption that is not text": 1,
    "json that is not JSON": 1,
}


def write_tree(root: Path, files: dict[str, bytes], *, zipped: bool) -> str:
    if zipped:
        with zipfile.ZipFile(root / "all.zip", "w", zipfile.ZIP_DEFLATED) as file:
            for name, data in files.items():
                file.writestr(name, data)
        return str(root / "all.zip")
    for name, data in files.items():
        path = root / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return str(root / "tree")


@pytest.mark.parametrize("zipped", [False, True])
def test_files_of_one_name_are_a_sample(tmp_path: Path, zipped):
    report = pack_shards(write_tree(tmp_path, PAIRS, zipped=zipped), tmp_path / "out")
    assert packed(tmp_path / "out") == {
        "a/0": {"jpg": jpeg(0), "txt": b"zero", "json": b'{"n": 0}'},
        "a/1_v2": {"jpg": jpeg(1), "txt": b"one"},
    }
    assert (report.rows, report.samples, dict(report.left_out)) == (8, 2, LEFT_OUT)
    assert report.tables[0][1] == (
        "files with the same name, images with txt; 3 files ignored: macosx, not-a-sample, system-file"
    )


@pytest.mark.parametrize("zipped", [False, True])
def test_folders_of_images_alone_are_classes(tmp_path: Path, zipped):
    files = {f"{name}/{n}.jpg": jpeg(n) for name in ("dog", "cat", "eel") for n in range(3)}
    report = pack_shards(write_tree(tmp_path, files, zipped=zipped), tmp_path / "out")
    found = packed(tmp_path / "out")
    assert list(found) == [f"{name}/{n}" for name in ("cat", "dog", "eel") for n in range(3)]
    assert [int(sample["cls"]) for sample in found.values()] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert json.loads(found["dog/1"]["json"]) == {"class": "dog"}
    assert report.tables[0][1] == "3 folders of classes, numbered in cls by name"


def test_images_and_texts_may_be_in_folders_of_their_own(tmp_path: Path):
    files = {f"images/{n}.jpg": jpeg(n) for n in range(3)} | {
        f"labels/{n}.txt": b"%d" % n for n in range(3)
    }
    pack_shards(write_tree(tmp_path, files, zipped=False), tmp_path / "out")
    assert packed(tmp_path / "out") == {
        str(n): {"jpg": jpeg(n), "txt": b"%d" % n} for n in range(3)
    }


def test_images_without_anything_else_are_samples(tmp_path: Path):
    files = {f"{n}.png": jpeg(n, "PNG") for n in range(3)}
    pack_shards(write_tree(tmp_path, files, zipped=False), tmp_path / "out")
    assert packed(tmp_path / "out") == {str(n): {"png": jpeg(n, "PNG")} for n in range(3)}


def test_a_table_may_name_files_of_a_zip(tmp_path: Path):
    files = {f"i/{n}.jpg": jpeg(n) for n in range(2)}
    archive = write_tree(tmp_path, files, zipped=True)
    names = ["i/0.jpg", "./i/1.jpg", "i/2.jpg", "../i/0.jpg", "/i/0.jpg"]
    (tmp_path / "t.jsonl").write_text(
        "".join(json.dumps({"image": name, "caption": "x"}) + "\n" for name in names)
    )
    report = pack_shards(str(tmp_path / "t.jsonl"), tmp_path / "out", root=archive)
    assert dict(report.left_out) == {"outside of the root": 2, "missing file": 1}
    assert [sample["jpg"] for sample in packed(tmp_path / "out").values()] == [jpeg(0), jpeg(1)]


@pytest.mark.parametrize("kind", ["files", "zip", "cells"])
def test_files_that_are_larger_than_what_is_in_memory_are_whole(tmp_path: Path, kind):
    sizes = [FIRST, FIRST + 1, 2 * FIRST + 17]
    files = {f"{n}.jpg": jpeg(n) + bytes(size - len(jpeg(n))) for n, size in enumerate(sizes)}
    if kind == "cells":
        source = str(tmp_path / "t.parquet")
        pq.write_table(pa.table({"image": list(files.values())}), source)
    else:
        source = write_tree(tmp_path, files, zipped=kind == "zip")
    report = pack_shards(source, tmp_path / "out", samples=2)
    assert report.samples == len(sizes)
    assert [sample["jpg"] for sample in packed(tmp_path / "out").values()] == list(files.values())
    tried = pack_shards(source, tmp_path / "none", samples=2, dry_run=True)
    assert tried.total("bytes") == report.total("bytes")


def test_a_damaged_entry_of_a_zip_is_left_out(tmp_path: Path):
    archive = Path(write_tree(tmp_path, {f"{n}.jpg": jpeg(n) * 500 for n in range(3)}, zipped=True))
    data = bytearray(archive.read_bytes())
    data[data.index(b"1.jpg") + 30] ^= 255
    archive.write_bytes(data)
    report = pack_shards(str(archive), tmp_path / "out")
    assert dict(report.left_out) == {"file that cannot be read": 1}
    assert list(packed(tmp_path / "out")) == ["0", "2"]


def test_entries_of_a_zip_that_cannot_be_read_are_left_out_with_the_reason(tmp_path: Path):
    archive = Path(write_tree(tmp_path, {f"{n}.jpg": jpeg(n) for n in range(5)}, zipped=True))
    data = bytearray(archive.read_bytes())
    start, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    # What the list at the end says of the first entries: an entry of it has 46 bytes and its name.
    encrypted, size, method, checksum = range(start, end, 46 + len("0.jpg"))[:4]
    data[encrypted + 8] |= 1
    data[size + 24 : size + 28] = (len(jpeg(1)) + 9).to_bytes(4, "little")
    data[method + 10] = 99
    data[checksum + 16] ^= 1
    archive.write_bytes(data)
    report = pack_shards(str(archive), tmp_path / "out")
    assert list(packed(tmp_path / "out")) == ["4"]
    assert dict(report.left_out) == {"file that cannot be read": 4}
    listed = (tmp_path / "out/.wdsflow/pack-left-out.jsonl").read_text().splitlines()
    by_row = {facts["row"]: facts["detail"] for facts in map(json.loads, listed)}
    assert by_row == {
        1: "'0.jpg' is encrypted",
        2: f"'1.jpg': it has {len(jpeg(1))} bytes instead of {len(jpeg(1)) + 9}",
        3: "'2.jpg': That compression method is not supported",
        4: "'3.jpg': Bad CRC-32 for file '3.jpg'",
    }


def test_a_text_of_more_than_16_mib_next_to_an_image_is_left_out(tmp_path: Path):
    tree = Path(write_tree(tmp_path, {"a.jpg": jpeg(1), "a.txt": b"a"}, zipped=False))
    (tree / "b.jpg").write_bytes(jpeg(2))
    with (tree / "b.txt").open("wb") as file:
        file.truncate((16 << 20) + 1)
    report = pack_shards(str(tree), tmp_path / "out")
    assert list(packed(tmp_path / "out")) == ["a"]
    (row,) = report.examples["file that cannot be read"]
    assert row.detail == "'b.txt': it has 16,777,217 bytes; at most 16,777,216 of a text are read"


def test_folders_in_a_zip_are_no_files(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as file:
        file.mkdir("i")
        file.mkdir("i/0.jpg")
        file.writestr("i/1.jpg", jpeg(1))
    report = pack_shards(str(tmp_path / "all.zip"), tmp_path / "out")
    assert (report.rows, report.tables[0][1]) == (1, "files with the same name")


def test_a_folder_without_images_and_one_that_holds_the_output_are_refused(tmp_path: Path):
    tree = write_tree(tmp_path, {"a.txt": b"x"}, zipped=False)
    with pytest.raises(TableError, match="holds no table, and no image or video"):
        pack_shards(tree, tmp_path / "out")
    (tmp_path / "tree/b.jpg").write_bytes(jpeg())
    with pytest.raises(ValueError, match="which is packed: choose a folder outside of it"):
        pack_shards(tree, tmp_path / "tree/out")
    assert not (tmp_path / "tree/out").exists()


def test_options_for_columns_and_keys_of_two_folders(tmp_path: Path):
    first = write_tree(tmp_path / "1", {"a.jpg": jpeg(1)}, zipped=False)
    second = write_tree(tmp_path / "2", {"a.jpg": jpeg(2), "b.jpg": jpeg(3)}, zipped=False)
    with pytest.raises(
        ValueError, match=r"--key names a column of a table, and .*tree has no table"
    ):
        pack_shards(first, tmp_path / "out", key="id")
    with pytest.raises(
        ValueError, match=r"^--image-token is for captions of a table, and .*tree has no table$"
    ):
        pack_shards(first, tmp_path / "out", image_token="<x>")
    report = pack_shards([first, second], tmp_path / "out")
    assert packed(tmp_path / "out") == {"a": {"jpg": jpeg(1)}, "b": {"jpg": jpeg(3)}}
    assert report.examples["repeated key"][0].detail == f"'a', as row 1 of {first}"


def test_only_images_that_readers_do_not_look_for_are_reported(tmp_path: Path):
    files = {
        "0.jpg": jpeg(0),
        "0.txt": b"zero",
        "1.mp4": b"\x00\x00\x00\x18ftypmp42",
        "1.txt": b"one",
    }
    (tmp_path / "in").mkdir()
    for name, data in files.items():
        (tmp_path / "in" / name).write_bytes(data)
    report = pack_shards(str(tmp_path / "in"), tmp_path / "out")
    lines = [line for line in report.lines() if line.startswith("field ")]
    assert lines == ["field mp4: 1 sample; readers of image-text pairs take jpg, png, jpeg, webp"]


TABLES = {
    "captions next to images": (["captions.jsonl"], ["img/0.jpg"]),
    "imagefolder with splits": (
        ["train/metadata.jsonl", "test/metadata.csv"],
        ["train/0.jpg", "test/0.jpg"],
    ),
    "Parquet": (["0.parquet", "data/1.parquet"], []),
    "LLaVA": (["llava.json"], ["img/0.jpg"]),
    "packed": (["t.tsv.gz"], ["0.jpg"]),
}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_a_folder_that_holds_tables_is_refused_with_their_names(tmp_path: Path, name, zipped):
    tables, images = TABLES[name]
    files = dict.fromkeys(tables, b' [{"a": 1}]') | {path: jpeg(n) for n, path in enumerate(images)}
    source = write_tree(tmp_path, files, zipped=zipped)
    with pytest.raises(HoldsTables) as error:
        pack_shards(source, tmp_path / "out")
    assert all(table in str(error.value) for table in tables)
    if zipped:
        assert error.value.tables == []
        table = min(tables)
        expected = f"unzip {source} {table}, then: wdsflow pack {table} --root {source} -o OUT"
        if "/" in table:
            expected = f"unzip {source} -d FOLDER, then: wdsflow pack FOLDER/{table} -o OUT"
        assert error.value.advice == [expected]
    else:
        assert error.value.tables == [f"{source}/{table}" for table in sorted(tables)]
        assert "unzip" not in "".join(error.value.advice)
    assert not (tmp_path / "out").exists()


def test_files_of_a_sample_and_of_systems_are_no_tables(tmp_path: Path):
    files = {
        "0.jpg": jpeg(0),
        "0.csv": b"x,y",
        "0.json": b"[1]",
        "info.json": b"{}",
        ".x/t.csv": b"a",
        ".wdsflow/p.jsonl": b"",
    }
    tree = write_tree(tmp_path, files, zipped=False)
    (tmp_path / "tree" / "gone.json").symlink_to("nowhere")
    report = pack_shards(tree, tmp_path / "out")
    assert report.samples == 1
    assert sorted(packed(tmp_path / "out")["0"]) == ["csv", "jpg", "json"]


def test_names_of_a_zip_are_found_however_they_are_written(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as file:
        for number, name in enumerate(("./i/0.jpg", "i//1.jpg", "./2.jpg", "2.jpg")):
            file.writestr(name, jpeg(number))
    report = pack_shards(str(tmp_path / "all.zip"), tmp_path / "out")
    assert dict(report.left_out) == {}
    assert {key: sample["jpg"] for key, sample in packed(tmp_path / "out").items()} == {
        "i/0": jpeg(0),
        "i/1": jpeg(1),
        "2": jpeg(3),
    }


@pytest.mark.sample(1)
@pytest.mark.parametrize("shuffle", [None, 1])
def test_names_that_are_not_utf8_are_packed(tmp_path: Path, shuffle):
    root = tmp_path / "caf\udce9"
    root.mkdir()
    (root / "t.csv").write_bytes(b"image,caption\n\xe9.jpg,an e\n")
    (root / "\udce9.jpg").write_bytes(jpeg(1))
    report = pack_shards(str(root / "t.csv"), tmp_path / "table", shuffle=shuffle)
    assert (report.samples, dict(report.left_out)) == (1, {})
    (root / "t.csv").unlink()
    report = pack_shards(str(root), tmp_path / "folder", shuffle=shuffle)
    assert [sample["jpg"] for sample in packed(tmp_path / "folder").values()] == [jpeg(1)]


def test_a_key_is_cut_for_its_longest_field(tmp_path: Path):
    key, field = "k" * 80, "f" * 40 + ".jpg"
    files = {f"{key}.jpg": jpeg(0), f"{key}.{field}": jpeg(1), f"{key}.txt": b"x"}
    pack_shards(write_tree(tmp_path, files, zipped=False), tmp_path / "out")
    with tarfile.open(tmp_path / "out/00000.tar") as tar:
        names = tar.getnames()
        assert [member.offset_data - member.offset for member in tar.getmembers()] == [512] * 3
    assert max(map(len, names)) == 100


def test_a_field_without_room_in_a_header_is_left_out_with_its_name(tmp_path: Path):
    fields = {82: "f" * 82, 83: "f" * 83, 84: "f" * 84, 200: "é" * 100}
    key = "k" * 40
    files = {f"{key}{number}.jpg": jpeg(number) for number in fields}
    files |= {f"{key}{number}.{field}": b"x" for number, field in fields.items()}
    report = pack_shards(write_tree(tmp_path, files, zipped=False), tmp_path / "out")
    assert (report.samples, dict(report.left_out), report.damaged) == (
        2,
        {"name longer than 100 bytes": 2},
        2,
    )
    assert [left.row for left in report.examples["name longer than 100 bytes"]] == [1, 4]
    assert "the field 'ééé" in report.examples["name longer than 100 bytes"][0].detail
    with tarfile.open(tmp_path / "out/00000.tar") as tar:
        assert [member.offset_data - member.offset for member in tar.getmembers()] == [512] * 4
        assert {member.name.partition(".")[2] for member in tar} == {"jpg", "f" * 82, "f" * 83}


def test_files_that_are_passed_over_are_counted(tmp_path: Path):
    files = {name: jpeg(n) for n, name in enumerate(("c.jpg", "c.JPG", "c.Jpg"))} | {
        "c.txt": b"x",
        "c.TXT": b"y",
    }
    tree = write_tree(tmp_path, files, zipped=False)
    (tmp_path / "tree/link").symlink_to(tmp_path)
    report = pack_shards(tree, tmp_path / "out")
    assert packed(tmp_path / "out") == {"c": {"jpg": jpeg(0), "txt": b"x"}}
    assert report.tables[0][1].endswith(
        "; 4 files ignored: link to a folder, second file of the same field"
    )


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_entries_of_a_zip_with_the_same_name_are_counted(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as file:
        for number in range(3):
            file.writestr("ok.jpg", jpeg(number))
    report = pack_shards(str(tmp_path / "all.zip"), tmp_path / "out")
    assert packed(tmp_path / "out") == {"ok": {"jpg": jpeg(2)}}
    assert report.tables[0][1].endswith("; 2 files ignored: second file of the same name")


def test_a_folder_that_cannot_be_listed_is_counted_and_the_others_are_read(tmp_path: Path) -> None:
    for name in ("0.jpg", "gone/1.jpg", "kept/2.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    files = LocalFiles(str(tmp_path))
    names = files.names()

    first = next(names)
    shutil.rmtree(tmp_path / "gone")
    rest = list(names)

    assert [first, *rest] == ["0.jpg", "kept/2.jpg"]
    assert files.passed_over == {"folder that cannot be read": 1}


def test_a_root_that_cannot_be_listed_ends_the_run(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path / "gone"))

    with pytest.raises(SourceError, match=r"gone cannot be read: No such file or directory$"):
        list(files.names())
