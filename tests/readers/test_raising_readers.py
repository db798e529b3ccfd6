import inspect
from dataclasses import replace

import pytest

from tests.readers.shapes import outcomes, shape, shard, verdict
from wdsflow.readers import Datasets, OpenClip33, RayData, WebDataset1
from wdsflow.readers.base import Fate, Reader
from wdsflow.scan.evidence import Evidence, FieldCount, Tally
from wdsflow.scan.shapes import Runs
from wdsflow.shards.tar.members import Stop
from wdsflow.validate.verdicts.judge import judge

CUT = Stop("error")


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
        ("jpg __local_path__ txt", "crash duplicate-field __local_path__"),
        ("jpg txt __LOCAL_PATH__", "crash duplicate-field __LOCAL_PATH__"),
        ("__local_path__ jpg txt", "usable"),
        ("jpg txt __bad__", "marked-bad __bad__"),
        ("jpg txt __x.png:bad", "usable"),
        ("jpg txt:not-utf8", "crash bad-caption txt"),
        ("jpg TXT:not-utf8", "crash bad-caption txt"),
        ("jpg:bad txt", "crash bad-image jpg"),
        ("JPG:bad txt", "crash bad-image jpg"),
        ("jpg txt cls:bad", "crash bad-field cls"),
        ("jpg txt:empty", "usable"),
    ],
)
def test_webdataset_1_raises_for_all_that_it_cannot_use(members: str, expected: str) -> None:
    assert outcomes(WebDataset1(), members) == [expected]


def test_webdataset_1_raises_where_no_sample_is_formed() -> None:
    assert verdict(WebDataset1(), shard([]), shard([])) == ("crashes", 0, ["no-samples"])
    assert verdict(WebDataset1(), shard(["jpg txt __bad__"])) == (
        "crashes",
        0,
        ["no-samples", "marked-bad"],
    )


def test_webdataset_1_keeps_shards_apart() -> None:
    halves = shard(["jpg"], url="a.tar"), shard(["txt"], url="b.tar")

    assert verdict(WebDataset1(), *halves) == ("crashes", 0, ["no-caption"])


def test_webdataset_1_loses_the_open_sample_to_an_error() -> None:
    assert verdict(WebDataset1(), shard(["jpg txt", "jpg txt"], CUT)) == (
        "crashes",
        1,
        ["truncated-shard"],
    )
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
    assert Datasets().crash_at_start([packed]) == Fate("crash", "group", "unreadable-shard", "zst")


def test_datasets_does_not_see_hidden_members() -> None:
    split = replace(
        shard(["jpg", "_0.jpg", "txt"]), visible_runs=Runs(head=shard(["jpg txt"]).runs.head)
    )

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
        ("jpg JPG txt", "usable"),
        ("__x.png:bad jpg:bad txt", "crash bad-image jpg"),
        ("jpg txt pickle:unsafe", "crash unsafe-field pickle"),
        ("jpg txt txt", "crash duplicate-field txt"),
        ("jpg txt __url__", "usable"),
        ("jpg txt __bad__", "marked-bad __bad__"),
        ("jpg json", "no-caption"),
    ],
)
def test_ray_decodes_few_fields_and_raises(members: str, expected: str) -> None:
    assert outcomes(RayData(), members) == [expected]


@pytest.mark.parametrize(
    ("tally", "key", "expected"),
    [
        ("key.again", "000", Fate("crash", "group", "key-again", "000")),
        ("key.again-junk", "d/", Fate("crash", "group", "key-again", "d/")),
        ("key.again", None, Fate("crash", "group", "key-again", "")),
        ("name.not-utf8", "000", Fate("crash", "batch", "not-utf8-name", "000")),
        ("name.control", "000", None),
    ],
)
def test_ray_refuses_a_key_that_comes_back_and_a_name_that_is_no_text(
    tally: str, key: str | None, expected: Fate | None
) -> None:
    odd = shard(["jpg txt"])
    odd.tallies[tally] = Tally(1, key, 2048)

    assert RayData().crash_at_shard(odd) == expected


@pytest.mark.parametrize(
    ("samples", "field"),
    [
        ([], None),
        (["jpg txt"], None),
        (["jpg txt", "png txt"], "jpg"),
        (["jpg txt", "png txt", "jpg txt"], "jpg"),
        (["x.npy jpg txt", "jpg txt"], "x.npy"),
        (["cls jpg txt", "jpg txt"], None),
        (["jpg txt", "cls jpg txt"], None),
    ],
)
def test_ray_makes_a_tensor_of_each_array_that_the_first_sample_has(
    samples: list[str], field: str | None
) -> None:
    assert RayData().crash_at_shard(shard(samples)) == (
        Fate("crash", "batch", "schema", field) if field else None
    )


@pytest.mark.parametrize(
    ("name", "ranks", "differ"),
    [
        ("jpg", 0b1000, False),
        ("jpg", 0b1100, True),
        ("x.npy", 0b1, True),
        ("png", 0, False),
        ("json", 0b1100, False),
    ],
)
def test_ray_is_not_foreseen_where_arrays_differ_in_their_dimensions(
    name: str, ranks: int, differ: bool
) -> None:
    odd = shard(["jpg txt"])
    odd.fields[name] = FieldCount(1, ranks=ranks)
    why = f"whether {name} fits into one tensor depends on where Ray's blocks begin"

    assert RayData().why_uncertain([shard(["jpg txt"]), odd]) == (why if differ else "")


def test_ray_reads_shards_as_arrow_unpacks_them() -> None:
    plain, packed = shard(["jpg txt"]), shard(["jpg txt"])
    packed.by_arrow = shard([])

    assert RayData().order([plain, packed]) == [[plain, packed.by_arrow]]


def test_how_much_ray_gives_before_an_exception_is_not_claimed() -> None:
    whole, odd = shard(["jpg txt"] * 5 + ["jpg"]), shard(["jpg txt", "jpg:bad txt", "jpg txt"])
    for shards in ([whole, odd, whole], [odd, whole, whole]):
        found = judge(Evidence("full", list(shards)), RayData())
        assert (found.outcome, found.least, found.usable, found.exact) == ("crashes", 0, 10, False)
        assert (
            found.note
            == "shards are read in parallel: how many samples come out before the exception is not known"
        )
        assert found.lost == {"no-caption": 2}
    for shards in ([odd], [whole, whole]):
        found = judge(Evidence("full", list(shards)), RayData())
        assert (found.least, found.usable, found.exact, found.note) == (
            None,
            10 * (len(shards) - 1),
            True,
            "",
        )
    in_order = judge(Evidence("full", [whole, odd, whole]), WebDataset1())
    assert (in_order.outcome, in_order.least, in_order.usable) == ("crashes", None, 5)


def test_ray_needs_the_first_samples_image_in_all_samples_of_a_shard() -> None:
    assert verdict(RayData(), shard(["jpg txt", "png txt"])) == ("crashes", 0, ["schema"])
    assert verdict(RayData(), shard(["jpeg txt", "webp txt"])) == ("trains", 2, [])
    assert verdict(RayData(), shard(["txt", "jpg txt"])) == ("loses", 1, ["no-image"])
    assert verdict(RayData(), shard(["jpg txt __bad__", "png txt"]))[:2] == ("loses", 1)


def test_only_openclip_waits_for_ever() -> None:
    assert verdict(Datasets(), shard(["jpg json"])) == ("loses", 0, ["no-caption"])
    assert verdict(RayData(), shard(["jpg json"])) == ("loses", 0, ["no-caption"])


@pytest.mark.parametrize(
    "reader", [WebDataset1(), Datasets(), RayData()], ids=lambda reader: reader.name
)
@pytest.mark.parametrize(
    ("members", "stage"),
    [
        ("jpg txt txt", "group"),
        ("jpg", "filter"),
        ("jpg txt json:bad", "decode"),
        ("jpg:bad txt", "decode"),
        ("jpg txt", "batch"),
    ],
)
def test_a_sample_is_counted_at_the_stage_where_it_ended(
    reader: Reader, members: str, stage: str
) -> None:
    (fate,) = reader.fates(shape(members))
    lacks = "crash" if reader.name == "webdataset-1" else "dropped"
    assert fate[:2] == ({"filter": lacks, "batch": "usable"}.get(stage, "crash"), stage)


def test_a_sample_that_is_marked_bad_is_left_out_by_grouping() -> None:
    for reader in (OpenClip33(), WebDataset1(), RayData()):
        assert reader.fates(shape("jpg txt __bad__")) == (
            Fate("dropped", "group", "marked-bad", "__bad__"),
        )


@pytest.mark.parametrize(
    "reader", [WebDataset1(), Datasets(), RayData()], ids=lambda reader: reader.name
)
def test_a_shard_ends_in_the_readers_exception_where_it_cannot_be_opened_or_is_cut(
    reader: Reader,
) -> None:
    fates = {
        "unreadable": Fate("crash", "group", "unreadable-shard", "why"),
        "error": Fate("crash", "group", "truncated-shard", "why"),
    }
    for kind in ("end", "eof", "silent", "error", "unreadable"):
        stop = Stop(kind, detail="why")  # type: ignore[arg-type]
        assert reader.crash_at_stop(stop) == fates.get(kind)
    assert not reader.joins


@pytest.mark.parametrize(
    ("reader", "traits"),
    [
        (WebDataset1, {"raises", "empty_raises", "loads_arrays", "takes_stages"}),
        (
            Datasets,
            {
                "raises",
                "visible_only",
                "gives_none",
                "same_fields",
                "makes_columns",
                "loads_folders",
            },
        ),
        (
            RayData,
            {
                "raises",
                "sees_metadata",
                "through_arrow",
                "gives_none",
                "same_fields",
                "in_parallel",
            },
        ),
        (
            OpenClip33,
            {
                "empty_stalls",
                "joins",
                "runs_training_command",
                "takes_one_pair",
                "empty_evaluation_raises",
            },
        ),
    ],
)
def test_readers_differ_in_what_they_do_with_shards(reader: type[Reader], traits: set[str]) -> None:
    assert {name for name, value in inspect.getmembers(reader) if value is True} == traits
