from dataclasses import replace

import pytest

from tests.readers.shapes import outcomes, shape, shard
from wdsflow.readers import Datasets, RayData, WebDataset1
from wdsflow.scan.evidence import Evidence, Runs, ShardEvidence, Stop, Tally
from wdsflow.validate.verdicts.verdict import judge

CUT = Stop("error")


def verdict(reader: object, *shards: ShardEvidence) -> tuple[str, int, list[str]]:
    result = judge(Evidence("full", list(shards)), reader)  # type: ignore[arg-type]
    return result.outcome, result.usable, [reason.slug for reason in result.reasons]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ("jpg txt", "usable"),
        ("JPG TXT cls", "usable"),
        ("jpg", "crash no-caption"),
        ("txt", "crash no-image"),
        ("jpg txt jpg", "crash duplicate-field jpg"),
        ("jpg JPG txt", "crash duplicate-field JPG"),
        ("jpg txt __url__", "crash duplicate-field __url__"),
        ("__key__ jpg txt", "crash duplicate-field __key__"),
        ("jpg txt __local_path__", "crash duplicate-field __local_path__"),
        ("__local_path__ jpg txt", "usable"),
        ("jpg txt __bad__", "marked-bad __bad__"),
        ("jpg txt:not-utf8", "crash bad-caption txt"),
        ("jpg:bad txt", "crash bad-image jpg"),
        ("jpg txt cls:bad", "crash bad-field cls"),
        ("jpg txt:empty", "usable"),
    ],
)
def test_webdataset_1_raises_for_all_that_it_cannot_use(members: str, expected: str) -> None:
    assert outcomes(WebDataset1(), members) == [expected]


def test_webdataset_1_raises_where_no_sample_is_formed() -> None:
    assert verdict(WebDataset1(), shard([]), shard([])) == ("crashes", 0, ["no-samples"])
    assert verdict(WebDataset1(), shard(["jpg txt __bad__"])) == ("crashes", 0, ["no-samples", "marked-bad"])


def test_webdataset_1_keeps_shards_apart() -> None:
    halves = shard(["jpg"], url="a.tar"), shard(["txt"], url="b.tar")

    assert verdict(WebDataset1(), *halves) == ("crashes", 0, ["no-caption"])


def test_webdataset_1_loses_the_open_sample_to_an_error() -> None:
    assert verdict(WebDataset1(), shard(["jpg txt", "jpg txt"], CUT)) == ("crashes", 1, ["truncated-shard"])
    assert verdict(WebDataset1(), shard(["jpg txt"]), shard([], Stop("unreadable"))) == (
        "crashes",
        1,
        ["unreadable-shard"],
    )


def test_zstd_is_unreadable_for_readers_that_use_tarfile() -> None:
    packed = replace(shard(["jpg txt"], url="a.tar.zst"), compression="zst")

    assert verdict(WebDataset1(), packed) == ("crashes", 0, ["unreadable-shard"])
    assert verdict(RayData(), packed) == ("trains", 1, [])
    assert verdict(RayData(), replace(packed, url="a.tar")) == ("crashes", 0, ["unreadable-shard"])


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ("jpg txt", "usable"),
        ("JPG txt", "no-image"),
        ("jpg TXT", "no-caption"),
        ("jpg json", "no-caption"),
        ("jpg JPG txt", "usable"),
        ("jpg txt txt", "crash duplicate-field txt"),
        ("jpg __key__ txt", "crash duplicate-field __key__"),
        ("jpg txt:not-utf8", "crash bad-caption txt"),
        ("jpg txt CLS:bad", "crash bad-field CLS"),
        ("jpg txt GIF:bad", "crash bad-field GIF"),
        ("jpg:bad txt", "crash bad-image jpg"),
        ("jpg txt __bad__", "usable"),
        ("jpg txt pyd:unsafe", "usable"),
    ],
)
def test_datasets_keeps_the_case_of_fields(members: str, expected: str) -> None:
    assert outcomes(Datasets(), members) == [expected]


def test_datasets_takes_columns_from_the_first_sample() -> None:
    shards = shard(["jpg txt"] * 5 + ["png txt", "jpg txt", "jpg txt gif:bad", "jpg txt cls:bad"]), shard(["jpg txt"])

    assert verdict(Datasets(), *shards) == ("crashes", 7, ["bad-field", "no-image"])


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (["jpg txt", "jpg"], ["schema"]),
        (["jpg txt"] * 4 + ["jpg"], ["schema"]),
        (["jpg txt"] * 4 + ["txt jpg"], []),
        (["jpg txt"] * 5 + ["jpg json txt"], []),
        (["jpg:bad txt:not-utf8"], ["bad-caption"]),
        (["jpg txt", "jpg txt", "jpg txt cls:bad"], ["bad-field"]),
        ([], ["schema"]),
    ],
)
def test_the_first_five_samples_of_datasets_must_agree(samples: list[str], expected: list[str]) -> None:
    outcome, usable, reasons = verdict(Datasets(), shard(samples), shard(["jpg txt"]))

    assert reasons == expected
    assert (outcome == "crashes", usable == 0) == (bool(expected), bool(expected))


def test_datasets_raises_at_once_for_a_shard_that_is_missing_anywhere() -> None:
    missing = ShardEvidence("b.tar", error="missing", stop=Stop("unreadable"))

    assert verdict(Datasets(), shard(["jpg txt"]), missing) == ("crashes", 0, ["unreadable-shard"])


def test_datasets_looks_ahead_before_the_first_sample_comes_out() -> None:
    assert verdict(Datasets(), shard(["jpg txt"] * 3, CUT)) == ("crashes", 0, ["truncated-shard"])
    assert verdict(Datasets(), shard(["jpg txt"] * 9, CUT)) == ("crashes", 8, ["truncated-shard"])


def test_datasets_does_not_see_hidden_members() -> None:
    split = replace(shard(["jpg", "_0.jpg", "txt"]), visible_runs=Runs(head=shard(["jpg txt"]).runs.head))

    assert verdict(Datasets(), split)[:2] == ("loses", 1)
    assert verdict(WebDataset1(), split)[:2] == ("crashes", 0)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ("jpg txt", "usable"),
        ("JPG txt", "no-image"),
        ("webp:bad txt", "usable"),
        ("png:bad txt", "crash bad-image png"),
        ("seg.png:bad jpg txt", "crash bad-field seg.png"),
        ("jpg txt id:bad", "usable"),
        ("jpg txt cls:bad", "crash bad-field cls"),
        ("jpg txt pth", "crash unsafe-field pth"),
        ("jpg txt pickle:unsafe", "crash unsafe-field pickle"),
        ("jpg txt txt", "crash duplicate-field txt"),
        ("jpg txt __url__", "usable"),
        ("jpg txt __bad__", "marked-bad __bad__"),
        ("jpg json", "no-caption"),
    ],
)
def test_ray_decodes_few_fields_and_raises(members: str, expected: str) -> None:
    assert outcomes(RayData(), members) == [expected]


def test_ray_refuses_a_key_that_comes_back() -> None:
    again = shard(["jpg", "jpg", "txt"])
    again.tallies["key.again"] = Tally(1, "000", 2048)

    assert verdict(RayData(), again) == ("crashes", 0, ["key-again"])


def test_ray_needs_the_first_samples_image_in_all_samples_of_a_shard() -> None:
    assert verdict(RayData(), shard(["jpg txt", "png txt"])) == ("crashes", 0, ["schema"])
    assert verdict(RayData(), shard(["jpeg txt", "webp txt"])) == ("trains", 2, [])
    assert verdict(RayData(), shard(["txt", "jpg txt"])) == ("loses", 1, ["no-image"])
    assert verdict(RayData(), shard(["jpg txt __bad__", "png txt"]))[:2] == ("loses", 1)


def test_only_openclip_waits_for_ever() -> None:
    assert verdict(Datasets(), shard(["jpg json"])) == ("loses", 0, ["no-caption"])
    assert verdict(RayData(), shard(["jpg json"])) == ("loses", 0, ["no-caption"])
    assert shape("jpg") != shape("png")


def test_datasets_gives_the_open_sample_where_the_cut_member_begins_another() -> None:
    cut = shard(["jpg txt"] * 9, CUT)
    for key, usable in (("008", 8), ("009", 9), ("d/", 8), ("__x", 8), (None, 8)):
        cut.tallies["tar.truncated-data"] = Tally(1, key, 9216)

        assert verdict(Datasets(), cut) == ("crashes", usable, ["truncated-shard"])
