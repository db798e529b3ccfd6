"""The command line of ``wdsflow pack``, also where everything is in an object store."""

import json
import zipfile
from pathlib import Path

import pytest

from tests.filtering.shards import digests
from tests.packing.tables import jpeg, packed, usual_rows, write_images, write_lines
from tests.printed.pasted import paste, run

USUAL = """\
t.jsonl: columns: files in image, captions in caption
rows: 5 in = 3 samples + 2 left out
  left out: 1 x missing file
    t.jsonl, row 2, column image: 'img/1.jpg'
  left out: 1 x no caption
    t.jsonl, row 3, column caption: it is empty
  all of them: out/.wdsflow/pack-left-out.jsonl
3 samples in 2 shards of 1 to 2, 13 kB, in out
to train on it: --train-data 'out/{00000..00001}.tar' --train-num-samples 3
next: wdsflow validate out
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    rows = usual_rows(write_images(tmp_path, 5))
    (tmp_path / "img/1.jpg").unlink()
    rows[2]["caption"] = None
    write_lines(tmp_path / "t.jsonl", rows)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_report_accounts_for_every_row_and_the_status_is_that_of_damage(folder: Path):
    done = run(["pack", "t.jsonl", "-o", "out", "--samples", "2"], folder)
    assert (done.status, done.out) == (1, USUAL)
    lines = Path("t.jsonl").read_text().splitlines(keepends=True)
    Path("t.jsonl").write_text("".join([lines[0], *lines[2:]]))
    done = run(["pack", "t.jsonl", "-o", "new", "--samples", "2"], folder)
    assert (done.status, "1 left out" in done.out) == (0, True)


def test_a_dry_run_writes_nothing_and_prints_the_command_that_does(folder: Path):
    before = sorted(folder.rglob("*"))
    done = run(["pack", "t.jsonl", "-o", "out", "--dry-run"], folder)
    assert done.status == 1
    assert "would be 3 samples in 1 shard of 3, 12 kB\n" in done.out
    assert "nothing was written; to write it: wdsflow pack t.jsonl -o out\n" in done.out
    assert sorted(folder.rglob("*")) == before


REFUSED = {
    "pack t.jsonl -o out --image imgae": [
        "has no column 'imgae'",
        "such as: wdsflow pack t.jsonl -o out --image image",
    ],
    "pack t.jsonl -o out --key no_such": [
        "has no column 'no_such'",
        "it has image, caption, id, width",
    ],
    "pack two.jsonl -o out": [
        "several columns could hold captions: caption, text",
        "wdsflow pack two.jsonl -o out --caption text",
    ],
    "pack odd.jsonl -o out": [
        "which column holds images or videos? It has words, photo_file",
        "--image photo_file",
    ],
    "pack t.json -o out": ["there is no table t.json", "such as: wdsflow pack t.jsonl -o out"],
    "pack t.jsonl -o out --samples 2 --size 1GB": ["--samples and --size both decide"],
    "pack t.jsonl -o out --size 1G": ["has two meanings"],
    "pack t.jsonl -o out --root none": ["there is no folder none; --root names"],
    "pack '' -o out": ["the table has no name"],
}


@pytest.mark.parametrize("typed", REFUSED)
def test_a_refusal_names_what_is_there_and_a_command(folder: Path, typed):
    write_lines(folder / "two.jsonl", [{"image": "img/0.jpg", "caption": "a", "text": "b"}])
    write_lines(folder / "odd.jsonl", [{"words": "a", "photo_file": "img/0.jpg"}])
    words = typed.replace("''", "\0").split()
    done = run([word.replace("\0", "") for word in words], folder)
    assert done.status == 2
    assert done.out == ""
    for text in REFUSED[typed]:
        assert text in done.errors
    assert not Path("out").exists()


@pytest.mark.deep
def test_a_table_its_files_and_the_shards_may_be_in_an_object_store(folder: Path, monkeypatch):
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    import fsspec

    from tests.servers import put, s3_server, use_s3

    with s3_server() as (url, port, _), monkeypatch.context() as patch:
        use_s3(patch, url, folder)
        put(port, "bucket", b"")
        system = fsspec.filesystem("s3")
        for path in ("t.jsonl", *(f"img/{n}.jpg" for n in (0, 2, 3, 4))):
            system.pipe(f"bucket/set/{path}", Path(path).read_bytes())
        done = run(
            ["pack", "s3://bucket/set/t.jsonl", "-o", "s3://bucket/out", "--samples", "2"], folder
        )
        assert done.status == 1
        assert (
            "left out: 1 x missing file\n    s3://bucket/set/t.jsonl, row 2, column image: "
            in done.out
        )
        assert "in s3://bucket/out\n" in done.out
        system.invalidate_cache()
        there = {
            name.rpartition("/")[2]: system.cat_file(name) for name in system.find("bucket/out")
        }
        again = run(
            ["pack", "s3://bucket/set/t.jsonl", "-o", "s3://bucket/out", "--samples", "2"], folder
        )
        assert "(2 shards done before)" in again.out
        local = run(["pack", "s3://bucket/set/t.jsonl", "-o", "local", "--samples", "2"], folder)
        assert local.status == 1
        tree = run(["pack", "s3://bucket/set/img", "-o", "tree"], folder)
        assert tree.status == 0
    assert json.loads(there["sizes.json"]) == {"00000.tar": 1, "00001.tar": 2}
    assert {name: there[name] for name in ("00000.tar", "00001.tar")} == {
        path.name: path.read_bytes() for path in Path("local").glob("*.tar")
    }
    assert [sample["jpg"] for sample in packed(Path("tree")).values()] == [
        jpeg(n) for n in (0, 2, 3, 4)
    ]


def test_files_in_another_folder_are_found_and_the_printed_command_packs_them(tmp_path: Path):
    (tmp_path / "other").mkdir()
    (tmp_path / "my images").mkdir()
    (tmp_path / "my images" / "a.jpg").write_bytes(jpeg())
    (tmp_path / "t.jsonl").write_text(
        '{"image": "none.jpg", "caption": "x"}\n{"image": "a.jpg", "caption": "a"}\n'
    )
    done = run(["pack", "t.jsonl", "-o", "out"], tmp_path)
    assert done.status == 1
    (line,) = [line for line in done.out.splitlines() if "the missing files" in line]
    assert line.startswith("the missing files are in my images: wdsflow pack t.jsonl ")
    again = paste(line.partition(": ")[2], tmp_path)
    assert again.status == 1
    assert "rows: 2 in = 1 sample + 1 left out" in again.out
    assert "the missing files" not in again.out


def test_files_of_a_folder_with_metadata_are_found_below_it(tmp_path: Path):
    (tmp_path / "photos/images").mkdir(parents=True)
    (tmp_path / "photos/images/it's.jpg").write_bytes(jpeg())
    write_lines(tmp_path / "photos/metadata.jsonl", [{"file_name": "it's.jpg", "text": "a"}])
    done = run(["pack", "photos", "-o", "out"], tmp_path)
    assert done.status == 1
    (line,) = [line for line in done.out.splitlines() if "the missing files" in line]
    assert line.startswith("the missing files are in photos/images: wdsflow pack photos ")
    assert paste(line.partition(": ")[2], tmp_path).status == 0


def test_the_printed_command_packs_the_tables_of_a_folder(tmp_path: Path):
    for name in ("a", "b"):
        write_lines(
            tmp_path / "ph" / name / "captions.jsonl",
            usual_rows(write_images(tmp_path / "ph" / name, 2)),
        )
    done = run(["pack", "ph", "-o", "out", "--samples", "3"], tmp_path)
    assert (done.status, done.out) == (2, "")
    assert "ph holds 2 tables: a/captions.jsonl, b/captions.jsonl" in done.errors
    (line,) = [line for line in done.errors.splitlines() if "to pack them: " in line]
    again = paste(line.partition(": ")[2], tmp_path)
    assert (again.status, len(packed(tmp_path / "out"))) == (0, 4)
    done = run(["pack", "p*", "-o", "new"], tmp_path)
    assert (
        "to pack them: wdsflow pack ph/a/captions.jsonl ph/b/captions.jsonl -o new"
        in done.errors.replace("'", "")
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize("lost", [1, 4])
def test_finished_shards_are_kept_if_their_files_are_missing_now(folder: Path, lost):
    command = ["pack", "t.jsonl", "-o", "out", "--samples", "2"]
    run(command, folder)
    before = {path: path.read_bytes() for path in Path("out").iterdir() if path.is_file()}
    Path("img").rename("gone")
    Path("img").mkdir()
    for name in sorted(path.name for path in Path("gone").iterdir())[lost:]:
        Path("gone", name).rename(Path("img", name))
    done = run(command, folder)
    assert (done.status, done.out) == (2, "")
    left = {1: "2 would be left: 2 rows", 4: "none would be left: 4 rows"}[lost]
    assert f"out holds shards of 3 rows, and now {left} of a missing file" in done.errors
    assert {path: path.read_bytes() for path in Path("out").iterdir() if path.is_file()} == before
    (line,) = [
        line for line in done.errors.splitlines() if "to replace them all the same: " in line
    ]
    assert paste(line.partition(": ")[2], folder).status == 1
    assert len(packed(Path("out"))) == 3 - min(lost, 3)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("left", "words"),
    [(3, "now 3 would be left"), (1, "now 1 would be left"), (0, "holds no table, and no image")],
)
def test_finished_shards_are_kept_if_a_folder_has_fewer_images_now(tmp_path: Path, left, words):
    write_images(tmp_path, 4)
    (tmp_path / "img/page.jpg").write_bytes(b"<html>")
    command = ["pack", "img", "-o", "out", "--samples", "2"]
    assert run(command, tmp_path).status == 1
    before = digests(tmp_path / "out")
    for number in range(left, 4):
        (tmp_path / f"img/{number}.jpg").unlink()
    if left < 3:
        (tmp_path / "img/page.jpg").unlink()
    done = run(command, tmp_path)
    assert (done.status, done.out) == (2, "")
    assert words.replace("now 3", "now 4") in done.errors
    assert digests(tmp_path / "out") == before
    if left:
        assert "img had more files; nothing was removed" in done.errors
        (line,) = [
            line for line in done.errors.splitlines() if "to replace them all the same: " in line
        ]
        assert paste(line.partition(": ")[2], tmp_path).status == int(left == 3)
        assert len(packed(tmp_path / "out")) == left


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "name", ["out{1..2}", "a::b", "@list", "pipe:x", "a*b", "a[1]b", "s3://bucket/{x}"]
)
def test_a_name_that_readers_take_for_a_pattern_is_refused_with_one_that_works(folder: Path, name):
    before = sorted(folder.rglob("*"))
    done = run(["pack", "t.jsonl", "-o", name], folder)
    assert (done.status, done.out) == (2, "")
    assert f"{name}: readers of shards would not take this for the name of a folder" in done.errors
    assert sorted(folder.rglob("*")) == before
    (line,) = [line for line in done.errors.splitlines() if "such as: " in line]
    if name.startswith("s3:"):
        assert line.endswith("-o s3://bucket/_x_")
        return
    again = paste(line.partition(": ")[2], folder)
    assert again.status == 1
    (line,) = [line for line in again.out.splitlines() if line.startswith("next: ")]
    assert paste(line.partition(": ")[2], folder).status in (0, 1)


def test_kept_shards_are_only_named_if_there_are_any(tmp_path: Path):
    (tmp_path / "no.zip").write_bytes(b"PK")
    done = run(["pack", "no.zip", "-o", "out"], tmp_path)
    assert (done.status, "no.zip is not a zip" in done.errors, "kept" in done.errors) == (
        2,
        True,
        False,
    )
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("a.jpg", jpeg())
    assert run(["pack", "a.zip", "-o", "out"], tmp_path).status == 0
    (tmp_path / "a.zip").write_bytes(b"PK")
    done = run(["pack", "a.zip", "-o", "out"], tmp_path)
    assert (done.status, "finished shards are kept" in done.errors) == (2, True)
    assert len(packed(tmp_path / "out")) == 1
