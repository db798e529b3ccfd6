"""What is known of tables without an option, and what options say."""

import gzip
import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wdsflow
from tests.filtering.shards import digests
from tests.packing.tables import jpeg, packed, usual_rows, write_csv, write_images, write_lines
from tests.videos import filmed, frame
from wdsflow import pack_shards
from wdsflow.packing import PackReport
from wdsflow.packing.rows.layouts import WhichColumn
from wdsflow.repair import OtherOptions
from wdsflow.table_files.errors import NoColumn, TableError


def layout(report: PackReport) -> str:
    """Return what the report says of the first table."""
    return report.tables[0][1]


def test_a_table_with_image_and_caption_needs_no_option(tmp_path: Path):
    table = write_lines(tmp_path / "t.jsonl", usual_rows(write_images(tmp_path, 3)))
    report = wdsflow.pack_shards(table, tmp_path / "out")
    assert (report.rows, report.samples, dict(report.left_out)) == (3, 3, {})
    assert packed(tmp_path / "out") == {
        f"{n + 1:08d}": {
            "jpg": jpeg(n),
            "txt": f"caption {n}".encode(),
            "json": json.dumps(
                {"image": f"img/{n}.jpg", "id": f"id-{n}", "width": n}, separators=(",", ":")
            ).encode(),
        }
        for n in range(3)
    }
    assert json.loads((tmp_path / "out/sizes.json").read_text()) == {"00000.tar": 3}


def test_data_juicers_rows_keep_their_json_and_lose_the_tokens_of_their_text(tmp_path: Path):
    paths = write_images(tmp_path, 4)
    rows = [
        {"text": "<__dj__image> a cat <|__dj__eoc|>", "images": paths[:1], "meta": {"n": 1}},
        {"text": "<__dj__image> a cat <|__dj__eoc|> <__dj__image> a dog", "images": paths[1:3]},
        {"text": "only words", "images": []},
        {"text": "<__dj__image>", "images": paths[3:]},
    ]
    report = pack_shards(write_lines(tmp_path / "dj.jsonl", rows), tmp_path / "out")
    assert layout(report) == "Data-Juicer: files in images, captions in text"
    assert dict(report.left_out) == {"no image": 1, "no caption": 1}
    assert report.damaged == 0
    found = packed(tmp_path / "out")
    assert [sorted(sample) for sample in found.values()] == [
        ["jpg", "json", "txt"],
        ["0.jpg", "1.jpg", "json", "txt"],
    ]
    assert [sample["txt"] for sample in found.values()] == [b"a cat", b"a cat\na dog"]
    assert [json.loads(sample["json"]) for sample in found.values()] == rows[:2]


def test_a_named_column_of_captions_loses_tokens_only_if_it_is_the_known_one(tmp_path: Path):
    rows = [
        {
            "text": "<__dj__image> a cat",
            "images": write_images(tmp_path, 1),
            "other": "<__dj__image> as it is",
        }
    ]
    table = write_lines(tmp_path / "t.jsonl", rows)
    for column, text in (("text", b"a cat"), ("other", b"<__dj__image> as it is")):
        pack_shards(table, tmp_path / column, caption=column)
        assert packed(tmp_path / column)["00000001"]["txt"] == text


def test_videos_of_data_juicer_have_their_own_field(tmp_path: Path):
    (tmp_path / "a.mp4").write_bytes(filmed([frame(1)]))
    (tmp_path / "i.png").write_bytes(jpeg(1, "PNG"))
    rows = [
        {"text": "<__dj__video> a clip", "videos": ["a.mp4"]},
        {"text": "both", "videos": ["a.mp4", "a.mp4"], "images": ["i.png"]},
        {"text": "a text", "videos": ["t.jsonl"]},
    ]
    report = pack_shards(write_lines(tmp_path / "t.jsonl", rows), tmp_path / "out")
    assert [sorted(sample) for sample in packed(tmp_path / "out").values()] == [
        ["json", "mp4", "txt"],
        ["0.mp4", "1.mp4", "json", "png", "txt"],
    ]
    assert dict(report.left_out) == {"not an image or video": 1}


@pytest.mark.parametrize("name", ["llava.json", "llava.jsonl"])
def test_llavas_conversations_are_the_json_and_the_first_answer_is_the_text(tmp_path: Path, name):
    paths = write_images(tmp_path, 2)
    turns = [
        {"from": "human", "value": "<image>\nWhat is it?"},
        {"from": "gpt", "value": "A cat."},
        {"from": "human", "value": "Sure?"},
        {"from": "gpt", "value": "Yes."},
    ]
    rows = [
        {"id": "1", "image": paths[0], "conversations": turns},
        {"id": "2", "conversations": turns},
        {"id": "1", "image": paths[1], "conversations": turns[:1]},
    ]
    if name.endswith("json"):
        (tmp_path / name).write_text(json.dumps(rows, indent=1))
    else:
        write_lines(tmp_path / name, rows)
    report = pack_shards(str(tmp_path / name), tmp_path / "out")
    assert layout(report) == "LLaVA: files in image, captions in conversations"
    (sample,) = packed(tmp_path / "out").values()
    assert (sample["txt"], json.loads(sample["json"])) == (b"A cat.", rows[0])
    assert dict(report.left_out) == {"no image": 1, "no caption": 1}


TURNS = {
    "no gpt": ([{"from": "human", "value": "What?"}], "no caption", "no answer of gpt"),
    "no value": ([{"from": "gpt"}], "no caption", "no answer of gpt"),
    "no value before another answer": (
        [{"from": "gpt"}, {"from": "gpt", "value": "Late."}],
        "no caption",
        "no answer of gpt",
    ),
    "no turns": ([], "no caption", "no answer of gpt"),
    "null": (None, "no caption", "no answer of gpt"),
    "number": (
        [{"from": "gpt", "value": 7}],
        "caption that is not text",
        "of the answer of gpt, 7 is a number",
    ),
    "list": (
        [{"from": "gpt", "value": ["a"]}],
        "caption that is not text",
        "of the answer of gpt, ['a'] is a list",
    ),
    "text": ("[]", "caption that is not text", "'[]' is text, and no list of turns"),
}


def test_conversations_without_an_answer_are_named(tmp_path: Path):
    image = write_images(tmp_path, 1)[0]
    rows = [{"image": image, "conversations": turns} for turns, _, _ in TURNS.values()]
    report = pack_shards(write_lines(tmp_path / "t.jsonl", rows), tmp_path / "out")
    listed = (tmp_path / "out/.wdsflow/pack-left-out.jsonl").read_text().splitlines()
    by_row = {facts["row"]: facts for facts in map(json.loads, listed)}
    assert [
        (by_row[row]["reason"], by_row[row]["detail"], by_row[row]["column"])
        for row in sorted(by_row)
    ] == [(reason, message, "conversations") for _, reason, message in TURNS.values()]
    assert (report.samples, report.left_out.total()) == (0, len(TURNS))


def test_data_juicers_text_that_is_no_text_is_named(tmp_path: Path):
    row = {"text": 7, "images": write_images(tmp_path, 1)}
    report = pack_shards(write_lines(tmp_path / "t.jsonl", [row]), tmp_path / "out")
    assert dict(report.left_out) == {"caption that is not text": 1}
    assert "t.jsonl, row 1, column text: 7 is a number" in str(report)


@pytest.mark.parametrize("separator", [",", "\t"])
def test_openclips_table_has_tabs_or_commas(tmp_path: Path, separator):
    rows = [
        {"filepath": path, "title": f"a, title {n}"}
        for n, path in enumerate(write_images(tmp_path, 3))
    ]
    report = pack_shards(write_csv(tmp_path / "t.csv", rows, separator), tmp_path / "out")
    assert layout(report) == "OpenCLIP's table: files in filepath, captions in title"
    assert [sample["txt"] for sample in packed(tmp_path / "out").values()] == [
        b"a, title %d" % n for n in range(3)
    ]


@pytest.mark.parametrize("name", ["metadata.jsonl", "metadata.csv"])
def test_a_folder_with_metadata_is_that_table(tmp_path: Path, name):
    tree, out = tmp_path / "tree", tmp_path / "out"
    rows = [
        {"file_name": path, "text": f"text {n}", "split": "a"}
        for n, path in enumerate(write_images(tree, 3))
    ]
    (write_csv if name.endswith("csv") else write_lines)(tree / name, rows)
    report = pack_shards(str(tree), out)
    assert layout(report) == "imagefolder metadata: files in file_name, captions in text"
    assert json.loads(packed(out)["00000002"]["json"]) == {"file_name": "img/1.jpg", "split": "a"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("shuffle", [None, 3])
def test_images_in_cells_of_parquet_are_members(tmp_path: Path, shuffle):
    write_images(tmp_path, 1)
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    cells: list[Any] = [{"bytes": jpeg(n), "path": f"{n}.jpg"} for n in range(50)]
    cells += [{"bytes": None, "path": "img/0.jpg"}, {"bytes": b"<html>", "path": "x"}, None]
    table = {
        "photo": pa.array(cells, kind),
        "text": [f"text {n}" for n in range(53)],
        "label": list(range(53)),
    }
    pq.write_table(pa.table(table), tmp_path / "t.parquet", row_group_size=20)
    report = pack_shards(str(tmp_path / "t.parquet"), tmp_path / "out", samples=13, shuffle=shuffle)
    assert layout(report) == "images in cells: files in photo, captions in text"
    assert dict(report.left_out) == {"not an image or video": 1, "no image": 1}
    found = packed(tmp_path / "out")
    assert {json.loads(sample["json"])["label"]: sample["jpg"] for sample in found.values()} == {
        **{n: jpeg(n) for n in range(50)},
        50: jpeg(0),
    }
    assert json.loads(found["00000008"]["json"]) == {"photo": "7.jpg", "label": 7}
    assert (list(found) == sorted(found)) == (shuffle is None)


def test_lists_of_bytes_are_several_images(tmp_path: Path):
    pairs = [[jpeg(0), jpeg(1, "PNG")], [jpeg(2)]]
    pq.write_table(
        pa.table({"pics": pa.array(pairs, pa.list_(pa.binary()))}), tmp_path / "t.parquet"
    )
    report = pack_shards(str(tmp_path / "t.parquet"), tmp_path / "out")
    assert layout(report) == "images in cells: files in pics, no captions"
    assert [
        {name: data for name, data in sample.items() if name != "json"}
        for sample in packed(tmp_path / "out").values()
    ] == [{"0.jpg": jpeg(0), "1.png": jpeg(1, "PNG")}, {"jpg": jpeg(2)}]


def test_columns_that_are_named_count_and_all_others_are_in_the_json(tmp_path: Path):
    rows = [
        {"id": f"a.{n}", "pic": path, "words": f"w {n}", "caption": "no"}
        for n, path in enumerate(write_images(tmp_path, 2))
    ]
    table = write_csv(tmp_path / "t.csv", rows)
    report = pack_shards(table, tmp_path / "out", image="pic", caption="words", key="id")
    assert layout(report) == "columns: files in pic, captions in words"
    assert report.changed_keys == (2, "row 1, column id: 'a.0' is 'a_0'")
    found = packed(tmp_path / "out")
    assert list(found) == ["a_0", "a_1"]
    assert found["a_1"] == {
        "jpg": jpeg(1),
        "txt": b"w 1",
        "json": b'{"id":"a.1","pic":"img/1.jpg","caption":"no"}',
    }
    pack_shards(table, tmp_path / "bare", image="pic", caption="")
    assert all("txt" not in sample for sample in packed(tmp_path / "bare").values())


def test_a_column_that_could_be_several_is_asked_for(tmp_path: Path):
    paths = write_images(tmp_path, 1)
    both = write_lines(tmp_path / "both.jsonl", [{"image": paths[0], "caption": "a", "text": "b"}])
    with pytest.raises(
        WhichColumn, match=r"several columns could hold captions: caption, text"
    ) as error:
        pack_shards(both, tmp_path / "out")
    assert (error.value.option, list(error.value.columns)) == ("caption", ["caption", "text"])
    other = write_lines(tmp_path / "other.jsonl", [{"my_photo": paths[0], "words": "a"}])
    with pytest.raises(WhichColumn, match="which column holds images or videos") as error:
        pack_shards(other, tmp_path / "out")
    assert list(error.value.columns) == ["my_photo"]
    with pytest.raises(NoColumn, match="has no column 'foto'"):
        pack_shards(other, tmp_path / "out", image="foto")
    with pytest.raises(NoColumn, match="has no column 'uid'"):
        pack_shards(both, tmp_path / "out", caption="text", key="uid")
    assert not (tmp_path / "out").exists()


def test_formats_are_named_by_their_bytes(tmp_path: Path):
    for name, kind in {
        "a.jpg": "PNG",
        "b.png": "WEBP",
        "c": "JPEG",
        "d.jpg": "GIF",
        "e.tif": "TIFF",
    }.items():
        (tmp_path / name).write_bytes(jpeg(1, kind))
    rows = [{"image": name, "caption": "x"} for name in ("a.jpg", "b.png", "c", "d.jpg", "e.tif")]
    report = pack_shards(write_lines(tmp_path / "t.jsonl", rows), tmp_path / "out")
    fields = [next(iter(sample)) for sample in packed(tmp_path / "out").values()]
    assert fields == ["png", "webp", "jpg", "gif", "tif"]
    assert "field gif: 1 sample; readers of image-text pairs take jpg, png, jpeg, webp" in str(
        report
    )


def test_videos_are_named_by_their_bytes_and_audio_is_none(tmp_path: Path):
    contents = {
        "a.mp4": b"\x1aE\xdf\xa3",
        "b.webm": b"\x1aE\xdf\xa3",
        "c.jpg": b"\0\0\x01\xba",
        "d.ogv": b"OggS",
        "e.mp4": b"OggS",
        "f.mp4": b"fLaC",
    }
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data + bytes(60))
    rows = [{"video": name, "caption": "x"} for name in contents]
    table = write_lines(tmp_path / "t.jsonl", rows)
    report = pack_shards(table, tmp_path / "out", image="video")
    fields = [next(iter(sample)) for sample in packed(tmp_path / "out").values()]
    assert fields == ["mkv", "webm", "mpg", "ogv"]
    assert dict(report.left_out) == {"not an image or video": 2}


def test_several_tables_are_packed_in_order(tmp_path: Path):
    paths = write_images(tmp_path, 4)
    first = write_lines(tmp_path / "a.jsonl", usual_rows(paths[:2]))
    second = write_csv(tmp_path / "b.csv", [{"filepath": path, "title": "t"} for path in paths[2:]])
    report = pack_shards([first, second], tmp_path / "out", samples=3)
    assert [name for name, _ in report.tables] == [first, second]
    assert packed(tmp_path / "out").keys() == {f"{n:08d}" for n in (1, 2, 3, 4)}
    assert [sample["jpg"] for sample in packed(tmp_path / "out").values()] == [
        jpeg(n) for n in range(4)
    ]
    assert json.loads((tmp_path / "out/sizes.json").read_text()) == {"00000.tar": 2, "00001.tar": 2}


def test_of_many_tables_the_first_are_listed_and_the_others_counted(tmp_path: Path):
    (path,) = write_images(tmp_path, 1)
    tables = [write_lines(tmp_path / f"{n:02}.jsonl", usual_rows([path])) for n in range(12)]
    report = pack_shards(tables, tmp_path / "out")
    lines = str(report).splitlines()
    assert lines[9:11] == [
        f"{tables[9]}: columns: files in image, captions in caption",
        "and 2 more tables",
    ]
    assert tables[10] not in "".join(lines)


def test_members_are_plain_ustar(tmp_path: Path):
    rows = usual_rows(write_images(tmp_path, 2))
    rows[1]["id"] = "long/" * 60 + "é"
    pack_shards(write_lines(tmp_path / "t.jsonl", rows), tmp_path / "out", key="id")
    data = (tmp_path / "out/00000.tar").read_bytes()
    with tarfile.open(tmp_path / "out/00000.tar") as tar:
        assert [member.type for member in tar] == [tarfile.REGTYPE] * 6
        assert all(
            data[member.offset + 257 : member.offset + 265] == b"ustar\x0000"
            for member in tar.getmembers()
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "has no rows"), ("[]", "has no rows"), ("[{}, 3]", "row 2 is not an object")],
)
def test_a_table_without_rows_is_refused(tmp_path: Path, text, message):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(TableError, match=message):
        pack_shards(str(tmp_path / "t.json"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_path_next_to_other_bytes_is_asked_for(tmp_path: Path):
    write_images(tmp_path, 1)
    columns = {"image": ["img/0.jpg"], "text": ["x"], "embedding": [b"123"]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(
        WhichColumn, match="several columns could hold images or videos: embedding, image"
    ):
        pack_shards(str(tmp_path / "t.parquet"), tmp_path / "out")
    assert pack_shards(str(tmp_path / "t.parquet"), tmp_path / "out", image="image").samples == 1
    assert json.loads(packed(tmp_path / "out")["00000001"]["json"]) == {
        "image": "img/0.jpg",
        "embedding": None,
    }


@pytest.mark.parametrize(
    "options", [{"image": "images"}, {"caption": "text"}, {"image": "images", "caption": "text"}]
)
def test_columns_that_are_named_leave_the_layout_as_it_is(tmp_path: Path, options):
    rows = [{"text": "<__dj__image> a cat <|__dj__eoc|>", "images": write_images(tmp_path, 1)}]
    report = pack_shards(write_lines(tmp_path / "t.jsonl", rows), tmp_path / "out", **options)
    assert layout(report) == "Data-Juicer: files in images, captions in text"
    sample = packed(tmp_path / "out")["00000001"]
    assert (sample["txt"], json.loads(sample["json"])) == (b"a cat", rows[0])


def test_another_token_is_removed_from_captions_too(tmp_path: Path):
    paths = write_images(tmp_path, 2)
    rows = [{"text": "[IMG.] a cat <__dj__video>", "images": paths[:1]}]
    turns = [{"from": "gpt", "value": "[IMG.]A cat, [IMGS]"}]
    tables = [
        write_lines(tmp_path / "dj.jsonl", rows),
        write_lines(tmp_path / "llava.jsonl", [{"image": paths[1], "conversations": turns}]),
    ]
    pack_shards(tables, tmp_path / "out", image_token="[IMG.]")
    assert [sample["txt"] for sample in packed(tmp_path / "out").values()] == [
        b"a cat",
        b"A cat, [IMGS]",
    ]
    with pytest.raises(OtherOptions, match="--image-token was"):
        pack_shards(tables, tmp_path / "out", image_token="<x>")
    plain = write_lines(tmp_path / "t.jsonl", usual_rows(paths))
    with pytest.raises(ValueError, match="--image-token is for tables of Data-Juicer and LLaVA"):
        pack_shards(plain, tmp_path / "plain", image_token="[IMG.]")


@pytest.mark.parametrize("options", [{}, {"key": "id"}, {"shuffle": 3}])
def test_rows_are_planned_in_batches_without_a_difference(tmp_path: Path, monkeypatch, options):
    table = write_lines(tmp_path / "t.jsonl", usual_rows(write_images(tmp_path, 8)))
    pack_shards(table, tmp_path / "one", samples=3, **options)
    monkeypatch.setattr("wdsflow.packing.rows.plan._AT_ONCE", 3)
    pack_shards(table, tmp_path / "many", samples=3, **options)
    assert digests(tmp_path / "many") == digests(tmp_path / "one")
    assert len(packed(tmp_path / "many")) == 8


WRONG = {
    "no table": ([], {}, TableError, "no table is named"),
    "samples": (["t.jsonl"], {"samples": 0}, ValueError, "--samples must be at least 1, not 0"),
    "size": (["t.jsonl"], {"size": "0"}, ValueError, "--size must be at least 1 byte"),
    "jobs": (["t.jsonl"], {"jobs": 0}, ValueError, "jobs must be at least 1"),
    "folder": (["none/t.jsonl"], {}, TableError, "there is no table none/t.jsonl"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_is_refused_before_anything_is_written(tmp_path: Path, monkeypatch, name):
    tables, options, kind, message = WRONG[name]
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "t.jsonl", usual_rows(write_images(tmp_path, 1)))
    with pytest.raises(kind) as refused:
        pack_shards(tables, tmp_path / "out", **options)
    assert str(refused.value) == message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("lines", [True, False])
def test_json_may_be_packed(tmp_path: Path, lines):
    rows = usual_rows(write_images(tmp_path, 3))
    text = "".join(json.dumps(row) + "\n" for row in rows) if lines else json.dumps(rows)
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(text.encode()))
    assert pack_shards(str(tmp_path / "t.json.gz"), tmp_path / "out").samples == 3
