"""What rules say of rarer cases than those of the golden files."""

from pathlib import Path

import pytest

from tests.readers.shapes import outcomes
from tests.validate.rules.build import Case, context_of, jpeg, pairs, samples, tar, words
from tests.validate.rules.cases import SOUND
from wdsflow import check
from wdsflow.readers import Options
from wdsflow.readers.open_clip.versions import FeedReader
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.shapes import Part, Run, Runs, ShapeCount
from wdsflow.shards.source.base import single_shard
from wdsflow.validate import Repair
from wdsflow.validate.catalog.run_rules import run_rules
from wdsflow.validate.rules.kit.missing_fields import missing_at_end

PAIR = (Part("jpg", "ok"), Part("txt", "ok"))


def lacking(
    number: int, fix: str = "pip install zstandard", detail: str = "zst needs zstandard"
) -> ShardEvidence:
    return ShardEvidence(
        single_shard(f"{number}.tar.zst"), error="needs-library", error_detail=detail, error_fix=fix
    )


def test_a_missing_library_is_one_finding_for_all_shards_that_need_it() -> None:
    def said(*shards: ShardEvidence) -> list[tuple[str, int, str | None, Repair | None]]:
        found = run_rules(context_of([*shards], ()), ["W020"])[0]
        return [(each.message, each.count, each.shard, each.repair) for each in found]

    fix = Repair("pip install zstandard")
    assert said(lacking(0)) == [("zst needs zstandard", 1, "0.tar.zst", fix)]
    assert said(lacking(0), lacking(1)) == [("2 shards: zst needs zstandard", 2, None, fix)]
    assert said(lacking(0, ""), lacking(1, ""), lacking(2, detail="other")) == [
        ("zst needs zstandard", 1, "0.tar.zst", None),
        ("zst needs zstandard", 1, "1.tar.zst", None),
        ("other", 1, "2.tar.zst", fix),
    ]


def ended(*counts: tuple[str, int]) -> str:
    shapes = [
        (tuple(Part(name, "ok") for name in fields.split()), count) for fields, count in counts
    ]
    inner = tuple(ShapeCount(shape, count, "k", 0) for shape, count in shapes[:-1])
    return missing_at_end(
        ShardEvidence(
            single_shard("a.tar"),
            runs=Runs(Run("a", 0, shapes[0][0]), inner, Run("z", 9, shapes[-1][0])),
        )
    )


def test_a_last_sample_lacks_what_at_least_half_of_the_others_have() -> None:
    assert ended(("jpg txt", 3), ("jpg", 1)) == "txt"
    assert ended(("jpg json txt", 3), ("JPG", 1)) == "json, txt"
    assert ended(("jpg", 2), ("jpg txt", 3), ("jpg", 1)) == "txt"
    assert ended(("jpg", 3), ("jpg txt", 3), ("jpg", 1)) == ""
    assert ended(("jpg txt", 1), ("jpg cls", 2), ("jpg json", 2), ("png", 1)) == ""
    assert missing_at_end(ShardEvidence(single_shard("a.tar"))) == ""
    assert missing_at_end(ShardEvidence(single_shard("a.tar"), runs=Runs(Run("a", 0, PAIR)))) == ""


def test_json_as_a_caption_is_not_counted_where_a_better_field_comes_first(tmp_path: Path) -> None:
    shards = {
        "0.tar": tar(
            [*samples(2, jpg=jpeg(), json=words({"a": 1})), *pairs(3, 5, json=words({"a": 1}))]
        )
    }

    def counts(text_key: str) -> list[int]:
        case = Case(
            shards, readers=("open-clip-4", "open-clip-3.3"), options=Options(text_key=text_key)
        )
        return [each.count for each in case.findings(tmp_path, "F125") if each.code == "F125"]

    assert counts("txt;json")[:1] == [2]
    assert counts("json;txt")[:1] == [5]
    assert counts("txt") == []


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        *[
            ("jpg txt", "usable"),
            ("jpg:big txt", "too-large jpg"),
            ("jpg:big-bad txt", "too-large jpg"),
        ],
        *[
            ("jpg:bad txt", "bad-image jpg"),
            ("jpg txt:empty", "empty-caption txt"),
            ("jpg txt:blank", "empty-caption txt"),
            ("jpg", "no-caption"),
        ],
        *[
            ("txt", "no-image"),
            ("json", "no-image-or-caption"),
            ("jpg txt:empty caption", "usable"),
        ],
        *[
            ("png jpg:bad txt", "usable"),
            ("jpg txt:not-utf8 caption:empty", "empty-caption caption"),
        ],
    ],
)
def test_wdsflows_feed_takes_the_first_image_and_any_caption(members: str, expected: str) -> None:
    assert outcomes(FeedReader(Options(), ("png", "jpg"), ("txt", "caption")), members) == [
        expected
    ]


def test_the_shards_of_validation_are_those_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("0.tar").write_bytes(SOUND)
    Path("v.tar").write_bytes(tar(samples(7, jpg=jpeg())))

    def said(validation: str) -> str | None:
        flags = [
            "--train-data",
            "0.tar",
            "--val-data",
            validation,
            "--train-num-samples",
            "30",
            "--workers",
            "1",
        ]
        flags += ["--batch-size", "4", "--dataset-type", "webdataset"]
        return check("0.tar", ["open-clip-3.3"], arguments=flags, jobs=1).forecasts[0].validation

    assert said("v.tar") is not None
    assert "none of the 7 samples of --val-data is usable" in str(said("v.tar"))
    assert "none of the" not in str(said("0.tar"))

    Path("cut.tar").write_bytes(SOUND[:700])
    for validation, why in {
        "none.tar": f"nothing could be read: {tmp_path}/none.tar: no such file",
        "none{0..3}.tar": f"nothing could be read: {tmp_path}/none0.tar and 3 more shards: no such file",
        "cut.tar": "no sample in cut.tar: the file ends inside its 2,048 bytes",
        "{none,cut}.tar": "no sample in none.tar: no such file",
    }.items():
        assert str(said(validation)).startswith(f"--val-data: {why}: rank 0 crashes after epoch 0")
