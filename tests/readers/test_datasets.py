"""How Hugging Face datasets reads shards: its columns come from the first samples.

It needs five samples before it yields the first one, and raises immediately if any shard is
missing.
"""

from dataclasses import replace

import pytest

from tests.readers.shapes import outcomes, shape, shard, verdict
from wdsflow.readers import Datasets
from wdsflow.readers.base import USABLE, Fate
from wdsflow.readers.datasets import _first_shapes
from wdsflow.scan.content.fitting import InferredColumns
from wdsflow.scan.evidence import FieldCount, ShardEvidence, Tally
from wdsflow.scan.shapes import Part
from wdsflow.shards.source.base import single_shard
from wdsflow.shards.tar.members import Stop

CUT = Stop("error")


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
    shards = (
        shard(["jpg txt"] * 5 + ["png txt", "jpg txt", "jpg txt gif:bad", "jpg txt cls:bad"]),
        shard(["jpg txt"]),
    )

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
def test_the_first_five_samples_of_datasets_must_agree(
    samples: list[str], expected: list[str]
) -> None:
    outcome, usable, reasons = verdict(Datasets(), shard(samples), shard(["jpg txt"]))

    assert reasons == expected
    assert (outcome == "crashes", usable == 0) == (bool(expected), bool(expected))


def test_datasets_raises_at_once_for_a_shard_that_is_missing_anywhere() -> None:
    missing = ShardEvidence(single_shard("b.tar"), error="missing", stop=Stop("unreadable"))

    assert verdict(Datasets(), shard(["jpg txt"]), missing) == ("crashes", 0, ["unreadable-shard"])
    assert Datasets().crash_at_start([shard(["jpg txt"]), missing]) == Fate(
        "crash", "group", "unreadable-shard"
    )


@pytest.mark.parametrize(
    ("samples", "cut_key", "usable"),
    [(4, "003", 0), (4, "004", 0), (5, "004", 0), (5, "005", 5), (6, "005", 5)],
)
def test_datasets_asks_for_five_samples_before_the_first_comes_out(
    samples: int, cut_key: str, usable: int
) -> None:
    """A sample is complete when the next one begins, even if that one is cut."""
    cut = shard(["jpg txt"] * samples, CUT)
    cut.tallies["tar.truncated-data"] = Tally(1, cut_key, 9216)

    assert verdict(Datasets(), cut) == ("crashes", usable, ["truncated-shard"])


@pytest.mark.parametrize("place", range(1, 9))
@pytest.mark.parametrize(
    "others", [["jpg txt"] * 8, ["jpg:ok txt", *["txt jpg"] * 7]], ids=["alike", "two kinds"]
)
def test_the_first_five_samples_are_found_among_counted_shapes(
    place: int, others: list[str]
) -> None:
    first = shard([*others[:place], "jpg", *others[place:], "jpg txt"])
    crash = Datasets().crash_at_start([first])

    assert (crash is not None) is (place < 5)
    assert crash in (None, Fate("crash", "group", "schema"))


def test_of_a_wild_shard_only_the_first_four_shapes_can_be_among_the_first_samples() -> None:
    """Which of its many shapes came after how many samples was not counted."""
    shapes = [f"txt jpg{number}" for number in range(9)]
    runs = shard(shapes).runs
    wild = replace(runs, inner=tuple(replace(item, before=()) for item in runs.inner))

    assert [part.suffix for sample in _first_shapes(wild) for part in sample[1:]] == [
        f"jpg{n}" for n in range(5)
    ]


@pytest.mark.parametrize(
    ("samples", "offset", "raises"),
    [
        (["jpg txt"], 512, True),
        (["jpg txt"] * 5, 1 << 40, True),
        (["jpg txt"] * 6, None, True),
        (["jpg txt"] * 6, 0, True),
        (["jpg txt"] * 6, 1024, True),
        (["jpg txt"] * 6, 1025, False),
        (
            ["jpg txt", "jpg txt:empty", "jpg txt:blank", "txt jpg", "txt:empty jpg", "jpg txt"],
            4096,
            True,
        ),
        (
            ["jpg txt", "jpg txt:empty", "jpg txt:blank", "txt jpg", "txt:empty jpg", "jpg txt"],
            4097,
            False,
        ),
    ],
)
def test_names_of_the_first_samples_of_datasets_must_be_text(
    samples: list[str], offset: int | None, raises: bool
) -> None:
    foreign = shard(samples)
    foreign.tallies["name.not-utf8"] = Tally(1, "k", offset)

    assert Datasets().crash_at_start([foreign]) == (
        Fate("crash", "group", "not-utf8-name", "k") if raises else None
    )


def test_values_of_the_first_samples_of_datasets_must_have_one_type() -> None:
    first = replace(shard(["jpg txt cls"]), columns=InferredColumns("a.tar"))
    assert Datasets().crash_at_start([first]) is None

    first.columns = InferredColumns("a.tar", field="cls", error="cannot mix")
    assert Datasets().crash_at_start([first]) == Fate("crash", "group", "types", "cls")
    assert Datasets().crash_at_start([]) is None


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
def test_later_samples_of_datasets_count_by_the_columns(
    columns: str, part: Part, expected: Fate
) -> None:
    reader = Datasets(columns=frozenset(columns.split()))

    assert reader.fates((part, *shape("jpg txt"))) == (expected,)


def test_a_column_behind_one_that_is_left_out_is_still_decoded() -> None:
    assert outcomes(Datasets(columns=frozenset({"jpg", "txt"})), "gif:bad jpg:bad txt") == [
        "crash bad-image jpg"
    ]
    assert outcomes(Datasets(columns=frozenset({"jpg", "txt"})), "jpg json") == ["no-caption"]


def test_the_first_shard_gives_datasets_its_columns() -> None:
    assert verdict(Datasets(), shard(["jpg txt"] * 5), shard(["png txt"] * 6)) == (
        "loses",
        5,
        ["no-image"],
    )


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
def test_a_member_named_as_the_samples_key_begins_a_sample_of_datasets(
    members: str, expected: list[str]
) -> None:
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
        ("jpg txt x.pngabc", ""),
    ],
)
def test_datasets_says_what_is_not_known_of_its_columns(members: str, why: str) -> None:
    first, later = shard([members]), shard(["png txt mp3 json"])
    first.fields = {name.lower(): FieldCount(1) for name in members.split()}

    assert Datasets().why_uncertain([first]) == Datasets().why_uncertain([first, later]) == why
    if "packed" in why:
        later.fields = first.fields
        assert Datasets().why_uncertain([shard(["jpg txt"]), later]) == why


def test_datasets_says_why_its_columns_could_not_be_found_out() -> None:
    first = replace(shard(["jpg txt json"]), columns=InferredColumns("a.tar"))
    assert Datasets().why_uncertain([first, shard(["jpg txt"])]) == ""

    first.columns = InferredColumns("a.tar", unknown="too deep")
    assert Datasets().why_uncertain([first, shard(["jpg txt"])]) == "too deep"
    assert Datasets().why_uncertain([]) == Datasets().why_uncertain([shard([])]) == ""


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
