import inspect
from dataclasses import replace

import pytest

from tests.readers.shapes import outcomes, shape, shard
from wdsflow.readers import Datasets, OpenClip33, RayData, WebDataset1
from wdsflow.readers.base import USABLE, Fate, Reader
from wdsflow.readers.datasets import _first_shapes
from wdsflow.scan.content.typed_columns import Columns
from wdsflow.scan.evidence import Evidence, FieldCount, Part, Runs, ShardEvidence, Stop, Tally
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
    assert Datasets().at_start([packed]) == Fate("crash", "group", "unreadable-shard", "zst")


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
        (["__url__ jpg txt", "jpg txt"], []),
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


@pytest.mark.parametrize(
    ("samples", "cut_key", "usable"), [(4, "003", 0), (4, "004", 0), (5, "004", 0), (5, "005", 5), (6, "005", 5)]
)
def test_datasets_asks_for_five_samples_before_the_first_comes_out(samples: int, cut_key: str, usable: int) -> None:
    """A sample is complete when the next one begins, even if that one is cut."""
    cut = shard(["jpg txt"] * samples, CUT)
    cut.tallies["tar.truncated-data"] = Tally(1, cut_key, 9216)

    assert verdict(Datasets(), cut) == ("crashes", usable, ["truncated-shard"])


@pytest.mark.parametrize("place", range(1, 9))
@pytest.mark.parametrize("others", [["jpg txt"] * 8, ["jpg:ok txt", *["txt jpg"] * 7]], ids=["alike", "two kinds"])
def test_the_first_five_samples_are_found_among_counted_shapes(place: int, others: list[str]) -> None:
    first = shard([*others[:place], "jpg", *others[place:], "jpg txt"])
    crash = Datasets().at_start([first])

    assert (crash is not None) is (place < 5)
    assert crash in (None, Fate("crash", "group", "schema"))


def test_of_a_wild_shard_only_the_first_four_shapes_can_be_among_the_first_samples() -> None:
    """Which of its many shapes came after how many samples was not counted."""
    shapes = [f"txt jpg{number}" for number in range(9)]
    runs = shard(shapes).runs
    wild = replace(runs, inner=tuple(replace(item, before=()) for item in runs.inner))

    assert [part.suffix for sample in _first_shapes(wild) for part in sample[1:]] == [f"jpg{n}" for n in range(5)]


@pytest.mark.parametrize(
    ("samples", "offset", "raises"),
    [
        (["jpg txt"], 512, True),
        (["jpg txt"] * 5, 1 << 40, True),
        (["jpg txt"] * 6, None, True),
        (["jpg txt"] * 6, 0, True),
        (["jpg txt"] * 6, 1024, True),
        (["jpg txt"] * 6, 1025, False),
        (["jpg txt", "jpg txt:empty", "jpg txt:blank", "txt jpg", "txt:empty jpg", "jpg txt"], 4096, True),
        (["jpg txt", "jpg txt:empty", "jpg txt:blank", "txt jpg", "txt:empty jpg", "jpg txt"], 4097, False),
    ],
)
def test_names_of_the_first_samples_of_datasets_must_be_text(
    samples: list[str], offset: int | None, raises: bool
) -> None:
    foreign = shard(samples)
    foreign.tallies["name.not-utf8"] = Tally(1, "k", offset)

    assert Datasets().at_start([foreign]) == (Fate("crash", "group", "not-utf8-name", "k") if raises else None)


def test_values_of_the_first_samples_of_datasets_must_have_one_type() -> None:
    first = replace(shard(["jpg txt cls"]), columns=Columns("a.tar"))
    assert Datasets().at_start([first]) is None

    first.columns = Columns("a.tar", field="cls", error="cannot mix")
    assert Datasets().at_start([first]) == Fate("crash", "group", "types", "cls")
    assert Datasets().at_start([]) is None


@pytest.mark.parametrize(
    ("columns", "part", "expected"),
    [
        ("jpg txt json", Part("json", "ok", fits=False), Fate("crash", "batch", "types", "json")),
        ("jpg txt", Part("json", "ok", fits=False), USABLE),
        ("jpg txt", Part("gif", "bad"), USABLE),
        ("jpg txt", Part("cls", "bad"), Fate("crash", "decode", "bad-field", "cls")),
        ("txt", Part("json", "ok"), Fate("dropped", "filter", "no-image")),
        ("jpg", Part("json", "ok"), Fate("dropped", "filter", "no-caption")),
        ("png caption", Part("json", "ok"), Fate("dropped", "filter", "no-image-or-caption")),
    ],
)
def test_later_samples_of_datasets_count_by_the_columns(columns: str, part: Part, expected: Fate) -> None:
    reader = Datasets(columns=frozenset(columns.split()))

    assert reader.fates((part, *shape("jpg txt"))) == (expected,)


def test_a_column_behind_one_that_is_left_out_is_still_decoded() -> None:
    assert outcomes(Datasets(columns=frozenset({"jpg", "txt"})), "gif:bad jpg:bad txt") == ["crash bad-image jpg"]
    assert outcomes(Datasets(columns=frozenset({"jpg", "txt"})), "jpg json") == ["no-caption"]


def test_the_first_shard_gives_datasets_its_columns() -> None:
    assert verdict(Datasets(), shard(["jpg txt"] * 5), shard(["png txt"] * 5)) == ("loses", 5, ["no-image"])


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ("__key__ jpg txt", ["no-image-or-caption", "usable"]),
        ("__key__ __key__ jpg txt", ["no-image-or-caption", "no-image-or-caption", "usable"]),
        ("__key__", ["no-image-or-caption"]),
        ("jpg txt __url__", ["crash duplicate-field __url__"]),
        ("jpg txt jpg", ["crash duplicate-field jpg"]),
    ],
)
def test_a_member_named_as_the_samples_key_begins_a_sample_of_datasets(members: str, expected: list[str]) -> None:
    assert outcomes(Datasets(), members) == expected


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ("jpg txt", ""),
        ("jpg txt MP4", "what the column MP4 converts to is not known here"),
        ("jpg txt a.b.flac", "what the column a.b.flac converts to is not known here"),
        ("jpg txt cbor", "what the column cbor converts to is not known here"),
        ("jpg txt x.ten.gz", "what the column x.ten.gz converts to is not known here"),
        ("jpg txt cls", "the types in the column cls were not looked at"),
        ("jpg txt x.zst", "what it makes of the packed field x.zst is not known here"),
        ("jpg txt x.png.gz", "what it makes of the packed field x.png.gz is not known here"),
        ("jpg txt x.txt.gz", ""),
        ("jpg txt x.gz.png", ""),
        ("jpg txt xpng.gz", ""),
    ],
)
def test_datasets_says_what_is_not_known_of_its_columns(members: str, why: str) -> None:
    first, later = shard([members]), shard(["png txt mp3 json"])
    first.fields = {name.lower(): FieldCount(1) for name in members.split()}

    assert Datasets().unknown([first]) == Datasets().unknown([first, later]) == why
    if "packed" in why:
        later.fields = first.fields
        assert Datasets().unknown([shard(["jpg txt"]), later]) == why


def test_datasets_says_why_its_columns_could_not_be_found_out() -> None:
    first = replace(shard(["jpg txt json"]), columns=Columns("a.tar"))
    assert Datasets().unknown([first, shard(["jpg txt"])]) == ""

    first.columns = Columns("a.tar", unknown="too deep")
    assert Datasets().unknown([first, shard(["jpg txt"])]) == "too deep"
    assert Datasets().unknown([]) == Datasets().unknown([shard([])]) == ""


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


@pytest.mark.parametrize("reader", [WebDataset1(), Datasets(), RayData()], ids=lambda reader: reader.name)
@pytest.mark.parametrize(
    ("members", "stage"),
    [("jpg txt txt", "group"), ("jpg", "filter"), ("jpg txt json:bad", "decode"), ("jpg txt", "batch")],
)
def test_a_sample_is_counted_at_the_stage_where_it_ended(reader: Reader, members: str, stage: str) -> None:
    (fate,) = reader.fates(shape(members))
    lacks = "crash" if reader.name == "webdataset-1" else "dropped"
    assert fate[:2] == ({"filter": lacks, "batch": "usable"}.get(stage, "crash"), stage)


@pytest.mark.parametrize("reader", [WebDataset1(), Datasets(), RayData()], ids=lambda reader: reader.name)
def test_a_shard_ends_in_the_readers_exception_where_it_cannot_be_opened_or_is_cut(reader: Reader) -> None:
    fates = {
        "unreadable": Fate("crash", "group", "unreadable-shard", "why"),
        "error": Fate("crash", "group", "truncated-shard", "why"),
    }
    for kind in ("end", "eof", "silent", "error", "unreadable"):
        stop = Stop(kind, detail="why")  # type: ignore[arg-type]
        assert reader.at_stop(stop) == fates.get(kind)
        assert reader.joins(stop) is False


@pytest.mark.parametrize(
    ("reader", "traits"),
    [
        (WebDataset1, {"raises", "empty_raises"}),
        (Datasets, {"raises", "visible_only", "gives_none", "same_fields", "makes_columns"}),
        (RayData, {"raises", "sees_metadata", "through_arrow", "gives_none", "same_fields"}),
        (OpenClip33, {"empty_stalls"}),
    ],
)
def test_readers_differ_in_what_they_do_with_shards(reader: type[Reader], traits: set[str]) -> None:
    assert {name for name, value in inspect.getmembers(reader) if value is True} == traits


def test_datasets_gives_the_open_sample_where_the_cut_member_begins_another() -> None:
    cut = shard(["jpg txt"] * 9, CUT)
    for key, usable in (("008", 8), ("009", 9), ("d/", 8), ("__x", 8), (None, 8)):
        cut.tallies["tar.truncated-data"] = Tally(1, key, 9216)

        assert verdict(Datasets(), cut) == ("crashes", usable, ["truncated-shard"])


@pytest.mark.parametrize(("samples", "more"), [(1, 1), (0, 0)])
def test_datasets_gives_the_only_sample_of_a_later_shard_too(samples: int, more: int) -> None:
    cut = shard(["jpg txt"] * samples, CUT)
    cut.tallies["tar.truncated-data"] = Tally(1, "009", 1024)

    assert verdict(Datasets(), shard(["jpg txt"] * 9), cut)[:2] == ("crashes", 9 + more)
