"""What is missing, and the advice on it."""

import gzip
from pathlib import Path

import pytest

from tests.validate.rules.build import Case, jpeg, pairs, samples, tar, words
from wdsflow import check, plan_repair, repair_shards
from wdsflow.readers.base import Options
from wdsflow.scan.caption_names import caption_name
from wdsflow.scan.evidence import JsonKey, ShardEvidence
from wdsflow.shards.shard import Shard
from wdsflow.validate import Finding


def fields(**given: bytes) -> Case:
    """Return a case in which every sample has these fields.

    A double underscore in a name means a dot.
    """
    return Case(
        {"0.tar": tar([(name.replace("__", "."), data) for name, data in samples(10, **given)])}
    )


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("case", "hint", "options"),
    [
        (fields(jpg=jpeg(), text=b"a dog"), "text may hold the caption", "--rename text=txt"),
        (
            fields(jpg=jpeg(), caption=b"a dog"),
            "caption may hold the caption",
            "--rename caption=txt",
        ),
        (
            fields(jpg=jpeg(), outputs__txt=b"a"),
            "outputs.txt may hold the caption",
            "--rename outputs.txt=txt",
        ),
        (
            fields(input__jpg=jpeg(), txt=b"a dog"),
            "input.jpg may hold the image",
            "--rename input.jpg=jpg",
        ),
        (
            fields(jpg=jpeg(), txt__gz=gzip.compress(b"a")),
            "txt.gz is compressed",
            "--rename txt.gz=txt",
        ),
        (fields(gif=jpeg(), txt=b"a dog"), "gif may hold the image", "--rename gif=jpg"),
        (
            fields(jpg=jpeg(), json=words({"url": "https://e.org/a.jpg", "alt": "a dog"})),
            '"alt"',
            "--caption json:alt",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_may_serve_instead_is_named_and_a_repair_uses_it(
    case: Case, hint: str, options: str, tmp_path: Path
):
    finding = only(case.findings(tmp_path, "F101"))

    assert finding.severity == "error"
    assert hint in finding.message
    assert " ".join(plan_repair(str(tmp_path / "0.tar")).options()) == options


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["cls", "label", "meta.class", "cls.gz"])
def test_no_repair_makes_captions_of_class_labels(name: str, tmp_path: Path):
    finding = only(fields(jpg=jpeg(), **{name.replace(".", "__"): b"7"}).findings(tmp_path, "F101"))

    assert f"; {name} may hold a class label, not a caption)" in finding.message
    assert plan_repair(str(tmp_path / "0.tar")).options() == ("--structure-only",)


def test_nothing_is_advised_where_nothing_can_serve(tmp_path: Path):
    finding = only(fields(jpg=jpeg(), mp4=b"x").findings(tmp_path, "F101"))

    assert finding.repair is None
    hint = "hangs (fields: jpg, mp4; the layout is video, not image-text pairs); OpenCLIP 3.3.0 drops 10 samples"
    assert finding.message.endswith(hint)


def test_level_names_says_how_to_learn_the_json_field(tmp_path: Path):
    case = Case(
        {"0.tar": tar(samples(10, jpg=jpeg(), json=words({"caption": "a dog"})))}, level="names"
    )

    assert (
        "--level headers finds the json field that holds captions"
        in only(case.findings(tmp_path, "F101")).message
    )


def test_image_and_caption_can_both_be_missing_everywhere(tmp_path: Path):
    found = fields(mp4=b"x", cls=b"1").findings(tmp_path, "F101")

    assert [
        "a txt field" in found[0].message,
        "a jpg, png, jpeg or webp field" in found[1].message,
    ] == [True, True]


def test_dots_in_every_name_are_told_as_dots(tmp_path: Path):
    members = [
        (f"photo {index}.{index} x.{name}", b"x") for index in range(9) for name in ("jpg", "txt")
    ]
    found = Case({"0.tar": tar(members)}, level="names").findings(tmp_path, "F", "W010")

    assert [(finding.code, finding.severity) for finding in found] == [("W010", "error")]
    assert "OpenCLIP 3.3.0 drops 9 samples" in found[0].message


def test_a_cut_sample_is_told_once(tmp_path: Path):
    cut = tar(pairs(30), end=False)[:-1024]  # without the last caption
    lone = tar([("000.jpg", jpeg())], end=False)

    assert [f.code for f in Case({"0.tar": cut}).findings(tmp_path, "W018", "F102")] == ["W018"]
    assert [
        f.code
        for f in Case({"0.tar": tar(pairs(30)), "1.tar": lone}).findings(tmp_path, "W018", "F102")
    ] == [
        "F102",
        "W018",
    ]


def test_missing_json_captions_are_told_with_the_names_that_are_there(tmp_path: Path):
    data = tar(samples(10, jpg=jpeg(), json=words({"description": "a dog in the snow"})))
    case = Case({"0.tar": data}, ("open-clip-4",), options=Options(json_text_key="caption"))
    finding = only(case.findings(tmp_path, "F"))

    assert (finding.code, finding.severity, finding.count) == ("F108", "error", 10)
    assert '"description" holds a string in 10 samples' in finding.message


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("document", "name"),
    [
        (b'{"id": 7, "meta": {"lang": "en", "caption": "a dog in the snow"}}', "meta.caption"),
        (b'{"captions": ["", "a dog in the snow", "a dog"]}', "captions"),
        (
            b'{"a": {"b": {"c": {"text": ["a dog in the snow"]}}}, "url": "https://example.org/a"}',
            "a.b.c.text",
        ),
    ],
)
def test_captions_deep_in_json_are_named_and_written_by_the_advised_repair(
    document: bytes, name: str, tmp_path: Path
):
    case = Case(
        {"0.tar": tar(samples(10, jpg=jpeg(), json=document))}, ("open-clip-3.3", "open-clip-4")
    )
    finding = only(case.findings(tmp_path, "F101"))

    assert f'the json field "{name}" holds a caption in 10 of 10' in finding.message
    (advice,) = check(str(tmp_path / "0.tar"), case.readers).advice[:1]
    assert advice.options == ("--caption", f"json:{name}")
    repair_shards([str(tmp_path / "0.tar")], tmp_path / "fixed", caption=f"json:{name}")
    assert check([str(tmp_path / "fixed" / "0.tar")], ["open-clip-3.3"]).verdicts[0].usable == 10


def named(**keys: JsonKey) -> ShardEvidence:
    return ShardEvidence(Shard.file("0.tar"), json_keys=keys)


def full(example: str, count: int = 100) -> JsonKey:
    return JsonKey(count, count, count, example, count, varied=True)


def same(example: str, count: int = 100) -> JsonKey:
    return JsonKey(count, count, count, example, count)


@pytest.mark.parametrize(
    ("keys", "best"),
    [
        ({"url": full("https://example.org/a.jpg"), "caption": full("a dog", 90)}, "caption"),
        ({"sha256": full("9f86d081884c7d659a2f"), "alt": full("a dog")}, "alt"),
        ({"status": full("success"), "blurb": full("two dogs in the snow")}, "blurb"),
        ({"license": full("cc-by"), "caption": full("dog")}, "caption"),
        ({"title": full("Winter"), "description": full("a dog in the snow")}, "description"),
        ({"text": full("a dog", 10), "description": full("a dog in the snow", 100)}, "description"),
        (
            {
                "key": full("000000017"),
                "date": full("2024-01-01 10:00"),
                "file": full("a/b c/0.jpg"),
            },
            None,
        ),
        ({"license": same("CC BY 4.0", 60), "caption": full("a dog", 54)}, "caption"),
        ({"license": full("CC BY 4.0", 60), "caption": full("a dog", 54)}, "caption"),
        ({"license": same("CC BY 4.0", 60), "blurb": full("a dog in the snow", 20)}, "blurb"),
        ({"status": full("success", 40), "license": same("CC BY 4.0", 40)}, None),
        ({"texte": full("雪の中の犬")}, "texte"),
        ({"caption": JsonKey(count=100)}, None),
        ({}, None),
    ],
)
def test_the_json_name_that_reads_like_captions_is_chosen(
    keys: dict[str, JsonKey], best: str | None
):
    found = caption_name([named(**keys)])

    assert (found[0] if found else None) == best


def test_json_names_are_counted_over_all_shards():
    found = caption_name([named(caption=full("a dog", 3)), named(caption=full("a cat", 4))])

    assert found is not None
    assert (found[1].strings, found[1].example) == (7, "a dog")


@pytest.mark.parametrize("mark", [b"", b"x"], ids=["empty", "full"])
def test_a_mark_for_bad_samples_is_not_taken_for_a_missing_field(mark: bytes, tmp_path: Path):
    case = Case({"0.tar": tar(samples(10, jpg=jpeg(), txt=b"a dog", __bad__=mark))})

    assert case.findings(tmp_path, "F101", "F102") == []


def test_a_field_without_a_byte_is_not_named_as_the_caption(tmp_path: Path):
    members = samples(10, jpg=jpeg(), caption=b"", text=b"a dog in the snow")
    (finding,) = Case({"0.tar": tar(members)}).findings(tmp_path, "F101")
    assert "; text may hold the caption" in finding.message
    assert plan_repair(str(tmp_path / "0.tar")).options() == ("--rename", "text=txt")
