import io
import json
from dataclasses import replace

from rich.console import Console

from tests.factories import NASTY
from wdsflow.scan.evidence import (
    CaptionFacts,
    FieldCount,
    ImageFacts,
    JsonKey,
    ShardEvidence,
    Tally,
)
from wdsflow.scan.shapes import Part, Run, Runs, ShapeCount
from wdsflow.shards.source.base import single_shard
from wdsflow.shards.tar.members import Stop
from wdsflow.validate.inspect.overview import overview
from wdsflow.validate.inspect.overview_text import MOST, show_overview
from wdsflow.validate.report.as_json import make_encodable

PAIR = (Part("jpg", "ok"), Part("txt", "ok"))


def shard(number: int, text: str = "a cat") -> ShardEvidence:
    return ShardEvidence(
        single_shard(f"d/{number:04d}.tar"),
        size=20_480,
        members=8,
        samples=4,
        runs=Runs(
            Run("0", 0, PAIR), (ShapeCount(PAIR, 2, "1", 1_024, ()),), Run("3", 3_072, PAIR[:1])
        ),
        fields={"jpg": FieldCount(4, 4_000, 2_000), "txt": FieldCount(3, 30, 12)},
        tallies={"name.dotted": Tally(2, "1", 1_024, "v1.jpg")},
        json_keys={text: JsonKey(4, 3, 3, text)},
        images=ImageFacts(
            4, 4_000_000, 2_000_000, 4_000, {"jpeg": 4}, {"RGB": 3, "": 1}, {19: 3, -1: 1}
        ),
        captions=CaptionFacts(3, 15, 9, {text: 3}),
    )


def shown(*shards: ShardEvidence, width: int = 100) -> str:
    buffer = io.StringIO()
    show_overview(overview(shards), Console(file=buffer, width=width, color_system=None))
    return buffer.getvalue()


def test_numbers_are_sums_and_places_are_the_first():
    total = overview([shard(0), shard(1)])
    assert (total.samples, total.members, total.size) == (8, 16, 40_960)
    assert total.fields["jpg"] == FieldCount(8, 8_000, 2_000)
    assert total.shapes == {("jpg", "txt"): 6, ("jpg",): 2}
    assert total.json_keys["a cat"] == JsonKey(8, 6, 6, "a cat")
    assert (total.images.count, total.images.formats["jpeg"], total.images.megapixels[19]) == (
        8,
        8,
        6,
    )
    assert total.captions.frequent["a cat"] == 6
    tally, url = total.tallies["name.dotted"]
    assert (tally.count, tally.key, url) == (4, "1", "d/0000.tar")


def test_an_image_of_one_pixel_has_a_known_size():
    smallest = replace(shard(0), images=ImageFacts(2, 2, 1, 6, {"png": 2}, {"L": 2}, {0: 1, -1: 1}))
    rows = [line.split() for line in shown(smallest).splitlines()]

    assert ["1", "to", "2", "1", "#" * 30] in rows
    assert ["unknown", "1", "#" * 30] in rows


def test_summing_up_does_not_change_the_evidence():
    first = shard(0)
    overview([first, shard(1)])
    assert first == shard(0)


def test_the_screen_names_fields_shapes_images_captions_and_shards():
    text = shown(shard(0), shard(1))
    for wanted in (
        "2 shards, 8 samples",
        "jpg",
        "6  jpg txt",
        "jpeg 8",
        "unknown 2",
        "512 to 1,024",
        "a dot inside",
    ):
        assert wanted in text


def test_long_tables_are_cut():
    text = shown(*(shard(number) for number in range(40)))
    assert f"and {40 - MOST} more" in text
    assert len(text.splitlines()) < 60


def test_nothing_in_names_or_captions_reaches_the_terminal():
    text = shown(shard(0, NASTY), width=80)
    assert {char for char in text if not char.isprintable()} <= {"\n", "\ufffe"}
    assert max(map(len, text.splitlines())) <= 80


def test_an_unreadable_shard_is_shown_as_such():
    text = shown(ShardEvidence(single_shard("gone.tar"), error="missing", stop=Stop("unreadable")))
    assert "1 shard (1 unreadable)" in text
    assert "missing" in text


def test_it_is_json():
    tree = json.loads(json.dumps(make_encodable(overview([shard(0, NASTY)]).to_dict())))
    assert tree["samples"] == 4
    assert tree["tallies"]["name.dotted"]["shard"] == "d/0000.tar"


def test_a_caption_that_comes_three_times_is_shown_and_one_that_comes_twice_is_not():
    few = shard(0)
    few.captions = CaptionFacts(5, 25, 9, {"a dog": 2, "a cat": 3})
    text = shown(few)
    assert "at least 3 times: a cat" in text
    assert "a dog" not in text
    few.captions = CaptionFacts(5_000, 25_000, 9, {"a dog": 5, "a cat": 6})  # a thousandth is usual
    text = shown(few)
    assert "at least 6 times: a cat" in text
    assert "a dog" not in text
