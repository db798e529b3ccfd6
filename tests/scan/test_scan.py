"""The scan of a shard against a plain reading of the same members by Python's tarfile."""

import io
import json
import random
import tarfile
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.depth import cases
from tests.pictures import encoded, photo
from wdsflow.scan import member_contents
from wdsflow.scan.evidence import Level, ScanOptions, ShardEvidence
from wdsflow.scan.scan import scan_shard
from wdsflow.scan.shapes import Part
from wdsflow.scan.statuses import BAD, EMPTY, NOT_UTF8, OK, UNKNOWN
from wdsflow.shards.samples.repeats import RepeatFinder
from wdsflow.shards.source.base import single_shard
from wdsflow.shards.tar.members import is_meta, split_name

STEMS = st.sampled_from(
    [
        "a",
        "b",
        "c",
        "d/a",
        "./a",
        "d/._a",
        "._a",
        "__x__",
        "__x__/a",
        "v1.0/a",
        "é",
        "__MACOSX/a",
        "x\n",
    ]
)
FIELDS = st.sampled_from([".jpg", ".txt", ".JPG", ".seg.png", "", ".", ".v1.jpg", ".__bad__"])
NAMES = st.lists(st.builds(str.__add__, STEMS, FIELDS), max_size=30)


def write(path: Path, members: list[tuple[str, bytes]]) -> Path:
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def plain_runs(names: list[str]) -> list[tuple[str, list[str]]]:
    pairs = [split_name(name) for name in names]
    kept = [(key, suffix) for key, suffix in pairs if key is not None and suffix is not None]
    return [
        (key, [suffix for _, suffix in group])
        for key, group in groupby(kept, key=lambda pair: pair[0])
    ]


def scanned(path: Path, level: Level) -> ShardEvidence:
    return scan_shard(single_shard(str(path)), ScanOptions(level))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scan")


@given(NAMES)
def test_runs_are_those_of_a_plain_reading_at_both_speeds(folder: Path, names: list[str]) -> None:
    path = write(folder / "a.tar", [(name, b"x") for name in names])
    expected = plain_runs([name for name in names if not is_meta(name)])
    shards = [scanned(path, "names"), scanned(path, "headers")]

    for shard in shards:
        assert shard.members == len(names)
        assert shard.member_bytes == len(names)
        runs = shard.runs
        ends = [
            (run.key, [part.suffix for part in run.shape]) for run in (runs.head, runs.tail) if run
        ]
        assert ends == expected[:1] + expected[1:][-1:]
        counted = sorted(
            shape
            for item in runs.inner
            for shape in [[part.suffix for part in item.shape]] * item.count
        )
        assert counted == sorted(suffixes for _, suffixes in expected[1:-1])
    fast, careful = shards
    assert fast.samples == careful.samples
    assert {
        name: tally.count for name, tally in fast.tallies.items() if name[:4] in ("name", "key.")
    } == {
        name: tally.count for name, tally in careful.tallies.items() if name[:4] in ("name", "key.")
    }


@cases(12)
@given(NAMES)
def test_hidden_members_are_left_out_of_the_visible_runs(folder: Path, names: list[str]) -> None:
    path = write(folder / "b.tar", [(name, b"x") for name in names])
    shard = scanned(path, "names")
    hidden = [name for name in names if name.rpartition("/")[2].startswith((".", "__"))]
    expected = plain_runs([name for name in names if name not in hidden])
    runs = shard.visible_runs or shard.runs
    ends = [(run.key, [part.suffix for part in run.shape]) for run in (runs.head, runs.tail) if run]

    assert ends == expected[:1] + expected[1:][-1:]


def test_members_that_are_not_adjacent_are_counted(tmp_path: Path) -> None:
    names = ["0.jpg", "1.jpg", "2.jpg", "0.txt", "1.txt", "2.txt"]
    shard = scanned(write(tmp_path / "a.tar", [(name, b"x") for name in names]), "names")

    assert shard.samples == 3
    assert shard.tally("key.again").count == 3
    assert shard.tally("key.again").key == "0"


def test_contents_get_the_status_that_their_decoder_would_give(tmp_path: Path) -> None:
    members = [
        ("a.txt", b"a caption"),
        ("a.json", b'{"description": "a caption", "width": 3}'),
        ("a.cls", b"seven"),
        ("a.jpg", b"<html></html>"),
        ("b.txt", b""),
        ("b.json", b"{"),
        ("c.txt", b"caf\xe9"),
        ("c.pyd", b"cos\nsystem\n."),
        ("c.bin", b"anything"),
    ]
    shard = scanned(write(tmp_path / "a.tar", members), "headers")
    statuses = {
        (run.key, part.suffix): part.status
        for run in shard.runs.shape_counts()
        for part in run.shape
    }

    assert statuses["a", "txt"] == OK
    assert statuses["a", "json"] == OK
    assert statuses["a", "cls"] == BAD
    assert statuses["a", "jpg"] == "markup"
    assert statuses["b", "txt"] == EMPTY
    assert statuses["b", "json"] == BAD
    assert statuses["c", "txt"] == NOT_UTF8
    assert statuses["c", "pyd"] == "unsafe"
    assert statuses["c", "bin"] == "-"
    assert shard.tally("field.unsafe").count == 1
    assert shard.json_keys["description"].strings == 1
    assert shard.json_keys["width"].strings == 0


def test_names_alone_leave_contents_unknown(tmp_path: Path) -> None:
    shard = scanned(write(tmp_path / "a.tar", [("a.jpg", b"x"), ("a.txt", b"x")]), "names")

    assert shard.runs.head is not None
    assert shard.runs.head.shape == (Part("jpg", UNKNOWN), Part("txt", UNKNOWN))


def test_a_missing_shard_is_evidence_not_an_exception(tmp_path: Path) -> None:
    shard = scanned(tmp_path / "none.tar", "headers")

    assert shard.error == "missing"
    assert shard.stop.kind == "unreadable"


@pytest.mark.parametrize(
    ("field", "size", "name"),
    [
        ("txt", 2, "text.huge"),
        ("json", 17, "json.huge"),
        ("cls", 2, "field.huge"),
        ("npz", 9, "field.huge"),
        ("jpg", 9, "field.huge"),
    ],
)
def test_a_field_without_end_is_counted_and_not_read(
    field: str, size: int, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_contents, "MOST_FIELD", 1 << 20)
    start = encoded(photo(), "JPEG") if field == "jpg" else b""
    shard = scanned(write(tmp_path / "a.tar", [(f"a.{field}", start + bytes(size << 20))]), "full")

    assert shard.tally(name).count == 1
    assert shard.runs.head is not None
    assert shard.runs.head.shape[0].status == "suspect"


def test_samples_that_dots_merge_are_counted_each(tmp_path: Path) -> None:
    names = [
        "a.jpg",
        "a.txt",
        "img.v1.jpg",
        "img.v1.txt",
        "img.v2.jpg",
        "b.seg.png",
        "b.jpg",
        "c 2.0 (x).jpg",
    ]
    shard = scanned(write(tmp_path / "a.tar", [(name, b"x") for name in names]), "names")

    assert shard.samples == 5


def test_wild_field_names_do_not_make_evidence_grow(tmp_path: Path) -> None:
    members = [(f"img.{number}.jpg", b"x") for number in range(3000)]
    shard = scanned(write(tmp_path / "a.tar", members), "names")

    assert shard.samples == 1000
    assert len(shard.fields) <= 300
    assert shard.tally("name.dotted").count == 1000
    assert shard.tally("key.long-run").count == 1


def test_many_names_in_json_do_not_make_evidence_grow(tmp_path: Path) -> None:
    first = {f"n{number:03d}": "a cat" for number in range(100)}
    later = {"n000": "a dog", "other": "a cow", **first}
    members = [("a.json", json.dumps(first).encode()), ("b.json", json.dumps(later).encode())]
    shard = scanned(write(tmp_path / "a.tar", members), "headers")

    assert sorted(shard.json_keys) == [f"n{number:03d}" for number in range(64)]
    assert {entry.count for entry in shard.json_keys.values()} == {2}


def test_a_link_whose_name_is_not_utf8_is_counted_and_is_no_field(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.GNU_FORMAT) as tar:
        for name in ("a.jpg", "b\udce9.jpg", "c\xe9.jpg"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, "x"
            tar.addfile(link)
        for name in ("d.jpg", "d.txt"):
            tar.addfile(tarfile.TarInfo(name))
    shard = scanned(tmp_path / "a.tar", "names")

    assert shard.tally("name.junk-not-utf8").count == 1
    assert (shard.members, shard.samples) == (2, 1)


def test_twins_and_macosx_files_are_no_images_or_captions_of_the_set(tmp_path: Path) -> None:
    twin = b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X        "
    names = ["d/0.jpg", "d/0.txt", "d/1.jpg", "d/1.txt"]
    junk = [
        (name.replace("d/", folder), twin)
        for name in names
        for folder in ("d/._", "__MACOSX/", "__MACOSX/._")
    ]
    members = [(name, b"a cat" if name.endswith("txt") else b"\xff\xd8no") for name in names]
    clean = scanned(write(tmp_path / "clean.tar", members), "full")
    shard = scanned(write(tmp_path / "twins.tar", [*junk, *members]), "full")

    assert shard.members == clean.members + len(junk)
    assert (shard.images, shard.captions) == (clean.images, clean.captions)
    assert (shard.frequent_images, shard.image_sketch) == (
        clean.frequent_images,
        clean.image_sketch,
    )
    contents = {
        name: tally for name, tally in shard.tallies.items() if not name.startswith("name.")
    }
    assert contents.keys() - {"key.again-junk", "key.again-twin"} == clean.tallies.keys()
    assert all(contents[name].count == tally.count for name, tally in clean.tallies.items())
    assert shard.runs.head is not None
    assert [part.status for part in shard.runs.head.shape] != [UNKNOWN]  # readers do meet them


@pytest.mark.parametrize("seed", range(30))
def test_runs_found_many_at_a_time_are_those_found_member_by_member(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    names, number = [], 0
    while len(names) < 300:
        number += draw.random() < 0.98  # else the key comes again
        stem = (
            f"{number:04d}"
            if draw.random() < 0.97
            else draw.choice(["d/", "./a", "é1", "_b", "0001", "a.b/c", "x\n"])
        )
        fields = (
            ("jpg", "txt")
            if draw.random() < 0.97
            else draw.choice([("jpg",), ("txt", "jpg"), ("jpg", "txt", "cls")])
        )
        names += [f"{stem}.{field}" for field in fields]
    path = write(tmp_path / "a.tar", [(name, b"x" * draw.randrange(3)) for name in names])
    found = scanned(path, "names")
    monkeypatch.setattr(RepeatFinder, "keys", lambda *_: [])
    assert found == scanned(path, "names")
