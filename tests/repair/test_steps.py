"""The steps of a plan: what each changes, and that it loses nothing."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.shards.archives import Entry, read_tar, write_tar
from wdsflow import repair_shards
from wdsflow.repair import RepairPlan
from wdsflow.repair.borders import UNMOVED
from wdsflow.repair.preview import Preview
from wdsflow.repair.repair_options import RepairOptions
from wdsflow.repair.repair_plan import make_plan
from wdsflow.scan.content.caption_encoding import EncodingGuess
from wdsflow.shards.caption_field import CaptionField
from wdsflow.shards.source.base import single_shard

EVERYTHING = make_plan(
    pair_names=True,
    name_images=True,
    rename={"jfif": "jpg", "bmp": "jpg"},
    encoding="cp1252",
    caption="json:a.b;c",
    rename_bad={"json": "json_raw"},
    drop_fields=["npy", "cls"],
    drop_bad=True,
)


def picture(form: str = "JPEG") -> bytes:
    stream = io.BytesIO()
    Image.linear_gradient("L").resize((16, 16)).save(stream, form)
    return stream.getvalue()


def repaired(
    tmp_path: Path, entries: list[Entry], **options: Any
) -> tuple[list[Entry], dict[str, int]]:
    """Repair one shard; return its members, and the number of changes per step.

    Asserts that a preview has the same members.
    """
    write_tar(tmp_path / "0.tar", entries)
    plan = RepairOptions(**options).steps()
    with Preview(single_shard(str(tmp_path / "0.tar")), UNMOVED, plan) as preview:
        shown = [(name, preview.read(field, 0, size)) for name, field, size in preview.members()]
    report = repair_shards(str(tmp_path / "0.tar"), tmp_path / "out", restart=True, **options)
    written = read_tar(tmp_path / "out/0.tar")
    assert shown == written
    assert preview.report.applied == report.merged("applied")
    return written, dict(report.merged("applied"))


def test_images_without_an_extension_are_named_by_their_first_bytes(tmp_path: Path):
    entries = [
        *[("1", picture()), ("1.txt", b"a")],
        *[("2", picture("PNG")), ("2.txt", b"b")],
        *[("photo.v3", picture("WEBP")), ("photo.v3.txt", b"c")],
        *[("4.dat", picture("BMP")), ("4.txt", b"d")],
        *[("5.jpg", picture()), ("5.txt", b"e"), ("5.thumb", picture())],
        *[("6.seg.png", picture("PNG")), ("6.txt", b"f")],
        *[("7.bin", picture()), ("7.raw", picture()), ("7.txt", b"g")],
        ("8", picture()),
        ("9", b"no image"),
        ("9.txt", b"i"),
    ]
    got, applied = repaired(tmp_path, entries, name_images=True)
    names = [name for name, _ in got]
    assert names[:8] == [
        "1.jpg",
        "1.txt",
        "2.png",
        "2.txt",
        "photo_v3.webp",
        "photo_v3.txt",
        "4.jpg",
        "4.txt",
    ]
    assert names[8:] == [
        "5.jpg",
        "5.txt",
        "5.thumb",
        "6.seg.png",
        "6.txt",
        "7.bin",
        "7.raw",
        "7.txt",
        "9.txt",
    ]
    assert applied == {"--name-images": 4}
    assert dict(got)["4.jpg"] == picture("BMP")


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16", "shift_jis"])
def test_captions_in_another_encoding_become_utf8(tmp_path: Path, encoding: str):
    text = "猫がいる" if encoding == "shift_jis" else "naïve café"
    data = text.encode(encoding)
    entries = [("1.jpg", b"x"), ("1.txt", data), ("2.jpg", b"x"), ("2.txt", "ünchanged".encode())]
    got, applied = repaired(tmp_path, entries, caption_encoding=encoding)
    assert [each for name, each in got if name.endswith("txt")] == [
        text.encode(),
        "ünchanged".encode(),
    ]
    assert list(applied.values()) == [1]


def test_a_caption_that_is_not_in_the_encoding_stays_as_it_is(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("1.jpg", b"x"), ("1.txt", b"caf\x81\xe9")])
    report = repair_shards(str(tmp_path / "0.tar"), tmp_path / "out", caption_encoding="cp1252")
    assert report.merged("missed") == {"caption is neither UTF-8 nor cp1252": 1}
    assert report.steps_without_effect
    assert read_tar(tmp_path / "out/0.tar")[1] == ("1.txt", b"caf\x81\xe9")


@pytest.mark.parametrize(
    ("captions", "encoding"),
    [
        (["naïve", "plain", "café"], "cp1252"),
        (["a – dash"], "cp1252"),
        (["Ж русский текст"], "cp1251"),
        (["猫がいる"], "shift_jis"),
        (["你好世界"], "gb18030"),
        (["naïve"], "utf-16"),
    ],
)
def test_the_encoding_of_captions_is_guessed_only_if_all_make_sense(
    captions: list[str], encoding: str
):
    guess = EncodingGuess()
    for caption in captions:
        guess.add(caption.encode(encoding))
    assert guess.encoding == (encoding if encoding in ("cp1252", "utf-16") else "")
    assert guess.is_certain == (encoding == "utf-16")


def test_two_encodings_in_one_set_are_no_guess():
    guess = EncodingGuess()
    guess.add("naïve".encode("utf-16"))
    guess.add("naïve".encode("cp1252"))
    assert (guess.captions, guess.encoding) == (2, "")


def test_fields_that_do_not_decode_are_renamed_where_they_do_not(tmp_path: Path):
    entries = [
        *[("1.jpg", picture()), ("1.txt", b"a"), ("1.json", b'{"a": 1}')],
        *[("2.jpg", picture()), ("2.txt", b"b"), ("2.json", b"{'a': 1}")],
        *[("3.jpg", picture()), ("3.txt", b"c"), ("3.json", b"")],
        *[("4.jpg", picture()), ("4.txt", b"d"), ("4.json", b"?"), ("4.json_raw", b"!")],
    ]
    got, applied = repaired(tmp_path, entries, rename_bad={"json": "json_raw"})
    names = [name for name, _ in got if "json" in name]
    assert names == ["1.json", "2.json_raw", "3.json_raw", "4.json", "4.json_raw"]
    assert applied == {"--rename-bad json=json_raw": 2}
    assert dict(got)["2.json_raw"] == b"{'a': 1}"


def test_several_names_become_one_and_a_field_that_is_there_stays(tmp_path: Path):
    entries = [
        ("1.jfif", b"1"),
        ("1.txt", b"a"),
        ("2.bmp", b"2"),
        ("2.txt", b"b"),
        ("3.jfif", b"3"),
        ("3.bmp", b"4"),
    ]
    got, applied = repaired(tmp_path, entries, rename={"jfif": "jpg", "bmp": "jpg"})
    assert [name for name, _ in got] == ["1.jpg", "1.txt", "2.jpg", "2.txt", "3.jpg", "3.bmp"]
    assert applied == {"--rename jfif=jpg": 2, "--rename bmp=jpg": 1}
    plan = RepairOptions(rename={"jfif": "jpg", "bmp": "jpg"}).steps()
    report = repair_shards(str(tmp_path / "0.tar"), tmp_path / "again", plan=plan)
    assert report.merged("missed") == {"bmp not renamed: jpg already exists": 1}


@pytest.mark.parametrize(
    ("tree", "place"),
    [
        ({"caption": " a cat "}, "caption"),
        ({"meta": {"caption": "a cat"}}, "meta.caption"),
        ({"captions": ["", "a cat", "a dog"]}, "captions"),
        ({"captions": [{"id": 3}, {"text": "a cat"}, {"text": "a dog"}]}, "captions.text"),
        ({"meta": [{"captions": ["a cat"]}]}, "meta.captions"),
    ],
)
def test_captions_are_found_in_nested_json_and_in_lists(tmp_path: Path, tree: object, place: str):
    entries = [("1.jpg", b"x"), ("1.json", json.dumps(tree).encode())]
    got, applied = repaired(tmp_path, entries, caption=f"json:{place}")
    assert got == [*entries, ("1.txt", b"a cat")]
    assert applied == {f"--caption json:{place}": 1}


def test_captions_are_decoded_before_json_replaces_what_cannot_be(tmp_path: Path):
    tree = json.dumps({"c": "of json"}).encode()
    entries = [
        *[("1.jpg", b"x"), ("1.txt", "café".encode("cp1252")), ("1.json", tree)],
        *[("2.jpg", b"x"), ("2.txt", b"\x81"), ("2.json", tree)],
    ]
    got, _ = repaired(tmp_path, entries, caption_encoding="cp1252", caption="json:c")
    assert [data for name, data in got if name.endswith(".txt")] == ["café".encode(), b"of json"]


def test_a_plan_means_the_same_as_options_and_as_json():
    assert RepairPlan.from_dict(json.loads(json.dumps(EVERYTHING.to_dict()))) == EVERYTHING
    assert EVERYTHING.caption == CaptionField("json", ("a.b", "c"))
    words = (
        "--pair-names --name-images --rename jfif=jpg --rename bmp=jpg --caption-encoding cp1252"
    )
    words += " --caption json:a.b;c --rename-bad json=json_raw --drop-field cls --drop-field npy --drop-bad"
    assert " ".join(EVERYTHING.options()) == words
    assert RepairPlan().options() == ("--structure-only",)
    assert [step.words[0] for step in EVERYTHING.steps() if step.loses] == [
        "--drop-field",
        "--drop-field",
        "--drop-bad",
    ]
    assert EVERYTHING.loses
    assert not make_plan(pair_names=True, rename={"a": "b"}).loses


def test_a_plan_is_carried_out_and_its_promise_compared(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("1.jfif", b"1"), ("1.txt", b"a")])
    plan = RepairPlan(rename=(("jfif", "jpg"),), expected_samples=1)
    report = repair_shards(str(tmp_path / "0.tar"), tmp_path / "out", plan=plan)
    assert (report.difference, read_tar(tmp_path / "out/0.tar")[0]) == ("", ("1.jpg", b"1"))
    again = repair_shards(
        str(tmp_path / "0.tar"),
        tmp_path / "out",
        plan=RepairPlan(rename=(("jfif", "jpg"),), expected_samples=2),
    )
    assert again.resumed == 1
    assert again.difference == "the plan promised 2 samples, and 1 were written"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"caption_encoding": "no-such"}, "'no-such' is not an encoding of text that Python knows"),
        ({"caption_encoding": "base64"}, "'base64' is not an encoding of text that Python knows"),
        ({"structure_only": True, "pair_names": True}, "structure_only excludes"),
        ({"plan": RepairPlan(), "pair_names": True}, "a plan excludes"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    tmp_path: Path, options: dict[str, Any], words: str
):
    write_tar(tmp_path / "0.tar", [("1.jpg", b"1"), ("1.txt", b"a")])
    with pytest.raises(ValueError, match=words):
        repair_shards(str(tmp_path / "0.tar"), tmp_path / "out", **options)


def test_a_packed_shard_is_previewed_and_nothing_is_left_of_it(tmp_path: Path, monkeypatch):
    import gzip

    from tests.shards.archives import tar_bytes

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "0.tar.gz").write_bytes(
        gzip.compress(tar_bytes([("1.jfif", b"1"), ("1.txt", b"a")]))
    )
    with Preview(
        single_shard(str(tmp_path / "0.tar.gz")), UNMOVED, RepairPlan(rename=(("jfif", "jpg"),))
    ) as preview:
        assert [name for name, _, _ in preview.members()] == ["1.jpg", "1.txt"]
    assert list((tmp_path / "tmp").iterdir()) == []
