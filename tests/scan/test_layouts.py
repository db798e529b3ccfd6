"""The layout of sets, and what json with images says about the other members of its sample."""

import json

import pytest

from tests.validate.rules.build import jpeg, pairs, png, samples, tar, words
from tests.validate.rules.layout_sets import (
    IMAGE,
    LAYOUTS,
    chat,
    mmc4,
    named,
    obelics,
    several,
    talk,
)
from wdsflow.scan.evidence import ScanOptions
from wdsflow.scan.layouts import layout_of
from wdsflow.scan.scan import scan_shard
from wdsflow.shards.shard import Shard

IMAGES, FILES = "interleaved.images-differ", "interleaved.file-missing"


@pytest.fixture
def scanned(tmp_path):
    def scan(members, level="headers"):
        (tmp_path / "0.tar").write_bytes(tar(members))
        return scan_shard(Shard.file(str(tmp_path / "0.tar")), ScanOptions(level))

    return scan


def told(shard):
    return {name: tally.count for name, tally in shard.tallies.items() if name in (IMAGES, FILES)}


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_layout_has_its_name_and_nothing_is_wrong_with_it(name, scanned):
    shard = scanned(LAYOUTS[name])
    assert layout_of([shard]).text() == name
    assert told(shard) == {}
    assert "name.dotted" not in shard.tallies


@pytest.mark.parametrize("name", [name for name in LAYOUTS if "interleaved" not in name])
def test_names_alone_tell_all_layouts_but_those_in_json(name, scanned):
    assert layout_of([scanned(LAYOUTS[name], "names")]).text() == name


def test_the_layout_is_that_of_most_samples(scanned):
    few = samples(2, 900, jpg=IMAGE, json=talk(1))
    assert layout_of([scanned([*pairs(5), *few])]).name == "image-text pairs"
    assert (
        layout_of([scanned([*pairs(2), *few, *samples(1, 950, jpg=IMAGE, json=talk(1))])]).kind
        == "interleaved"
    )
    assert layout_of([scanned([*pairs(5), *samples(2, 900, mp4=b"x", txt=b"cat")])]).is_image_text
    assert layout_of([]).text() == ""


def test_dots_in_base_names_are_no_several_images(scanned):
    members = [
        (f"photo.{number}.{name}", data)
        for number in range(6)
        for name, data in (("jpg", IMAGE), ("txt", b"x"))
    ]
    shard = scanned(members)
    assert shard.tally("name.dotted").count == 12
    assert not shard.numbered
    assert layout_of([shard]).kind == "pairs"


def test_numbered_images_that_few_samples_have_are_no_dots_in_base_names(scanned):
    shard = scanned(several([1, 1, 1, 1, 1, 1, 1, 1, 5]))
    assert shard.numbered
    assert "name.dotted" not in shard.tallies
    assert shard.samples == 9


@pytest.mark.parametrize("make", [named, talk, chat, obelics], ids=lambda make: make.__name__)
@pytest.mark.parametrize("there", [1, 3])
def test_more_or_fewer_images_than_places_are_found(make, there, scanned):
    members = several([1, 2, 2, 3], make)
    members += [(f"900.{number}.jpg", IMAGE) for number in range(there)] + [("900.json", make(2))]
    shard = scanned(members)
    assert told(shard)[IMAGES] == 1
    tally = shard.tally(IMAGES)
    assert (tally.key, tally.detail) == ("900", f"2 in the json, {there} in the sample")


def test_a_sample_without_tokens_differs_only_where_others_have_them(scanned):
    assert told(scanned(samples(4, jpg=IMAGE, json=talk(0)))) == {}
    members = [*samples(4, jpg=IMAGE, json=talk(1)), *samples(1, 900, jpg=IMAGE, json=talk(0))]
    assert told(scanned(members)) == {IMAGES: 1}
    # Text only, as LLaVA mixes in.
    assert told(scanned([*members[:8], *samples(2, 900, json=talk(0))])) == {}


def test_sets_whose_images_are_elsewhere_are_not_accused(scanned):
    for member in (talk(2, ["a.jpg", "b.jpg"]), obelics(2), mmc4(["a.jpg"])):
        assert told(scanned(samples(4, json=member))) == {}


@pytest.mark.parametrize(
    "value",
    [
        {"texts": ["a"]},
        {"images": ["b"]},
        {"texts": "a", "images": ["b"]},
        {"texts": [], "images": []},
        {"texts": ["a", None], "images": [None]},
        {"texts": ["a"], "images": ["b"]},
    ],
)
def test_other_json_with_texts_or_images_is_not_interleaved(value, scanned):
    shard = scanned(samples(4, jpg=IMAGE, json=json.dumps(value).encode()))

    assert layout_of([shard]).kind == "pairs"
    assert told(shard) == {}


def test_messages_may_be_lists_of_texts_and_images(scanned):
    def message(*parts):
        asked = {"role": "user", "content": ["look at", *parts]}
        told = {"role": "assistant", "content": "a cat"}
        return json.dumps({"messages": [asked, told]}).encode()

    image, text = {"type": "image"}, {"type": "text", "text": "<image> and this"}
    one = scanned(samples(4, jpg=IMAGE, json=message(image, "what is it?")))
    assert layout_of([one]).kind == "interleaved"
    assert told(one) == {}
    assert told(scanned(samples(4, jpg=IMAGE, json=message(image, text)))) == {IMAGES: 4}


def test_a_video_may_have_the_ending_that_webdataset_takes_for_an_image(scanned):
    for ending in ("mpg", "mpeg"):
        shard = scanned(samples(4, txt=b"a cat", **{ending: b"x"}))
        assert (
            layout_of([shard]).text() == layout_of([scanned(samples(4, txt=b"a", mp4=b"x"))]).text()
        )


def test_masks_and_videos_do_not_count_as_images(scanned):
    masked = samples(4, jpg=IMAGE, json=talk(1), **{"mask.png": png(), "0.depth.png": png()})
    assert told(scanned(masked)) == {}
    assert told(scanned(samples(4, mp4=b"x", jpg=IMAGE, json=talk(8, video="a.mp4")))) == {}


def test_a_file_that_the_json_lists_is_missing(scanned):
    members = several([1, 3, 2], named)
    members.remove(("001.2.jpg", IMAGE))
    shard = scanned(members)
    assert told(shard) == {IMAGES: 1, FILES: 1}
    assert (shard.tally(FILES).key, shard.tally(FILES).detail) == ("001", "2.jpg")


@pytest.mark.parametrize(
    "written", ["{}.jpg", "train/{}.JPG", "a\\b\\{}.jpg", "{}.webp", "/data/{}.jpg"]
)
def test_files_are_found_by_the_names_of_members(written, scanned):
    members = [
        member
        for key in ("003", "004", "005")
        for member in ((f"x/{key}.jpg", IMAGE), (f"x/{key}.json", talk(1, written.format(key))))
    ]
    assert told(scanned(members)) == {}
    missing = [("x/900.jpg", IMAGE), ("x/900.json", talk(1, written.format("901")))]
    assert told(scanned([*members, *missing])) == {FILES: 1}


def test_names_of_where_images_came_from_are_no_members(scanned):
    members = [
        member
        for number in range(4)
        for member in (
            (f"{number}.jpg", IMAGE),
            (f"{number}.json", talk(1, f"coco/train2017/{number + 900}.jpg")),
        )
    ]
    assert told(scanned(members)) == {}


PLAIN = (
    {
        "url": "https://example.com/9.jpg",
        "key": "9",
        "image": "9.jpg",
        "caption": "how to write <image> in html",
    },
    {"images": ["a.jpg", "b.jpg"], "texts": "no list", "caption": "a cat"},
    {"images": ["front.jpg", "back.jpg"], "texts": ["one", "two"]},  # all of both: no document
    {"images": ["a.jpg"], "texts": [None, "one"]},
    {"messages": "3 unread", "conversations": None, "image_info": {"image_name": "a.jpg"}},
    {"conversations": ["<image> <image>", "a.jpg"], "messages": [{"role": "user"}]},
    {"image_info": [{"width": 3}], "text_list": ["a"], "texts": [], "images": []},
    {"conversations": [], "messages": [], "texts": [None], "images": [None]},
)


@pytest.mark.parametrize("value", PLAIN)
def test_metadata_of_plain_sets_is_no_document(value, scanned):
    shard = scanned(samples(4, jpg=IMAGE, txt=b"the tag <image> <image>", json=words(value)))
    assert shard.interleaved == {}
    assert told(shard) == {}
    assert layout_of([shard]).name == "image-text pairs"


def test_odd_values_where_names_are_expected_do_no_harm(scanned):
    for odd in (
        None,
        3,
        [],
        {},
        [[]],
        [None, 3, {"path": 4}, {"path": "a.jpg"}],
        "x" * 100_000,
        "\0.jpg",
        "https://x/a.jpg",
    ):
        shard = scanned(samples(3, jpg=IMAGE, json=talk(1, odd)))
        assert shard.interleaved == {"llava": 3}
        assert told(shard) == {}
    deep: object = "<image>"
    for _ in range(400):
        deep = [{"type": "text", "text": deep}]
    turns = [{"role": "user", "content": deep}, {"role": 1, "content": {"type": "image"}}]
    assert scanned(
        samples(3, jpg=IMAGE, json=json.dumps({"messages": turns}).encode())
    ).interleaved == {"chat": 3}


def test_bad_images_are_images(scanned):
    members = several([1, 2], named)
    members += [("900.0.jpg", b"<html>"), ("900.1.jpg", jpeg()[:500]), ("900.json", named(2))]
    assert told(scanned(members)) == {}
