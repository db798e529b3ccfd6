"""The repair that wdsflow plans by itself: its steps and its promise.

OpenCLIP's own loader reads the output.
"""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from tests.repair.test_repair_readers import trained
from tests.shards.archives import Entry, write_tar
from wdsflow import check, plan_repair, repair_shards
from wdsflow.repair import RepairPlan

# webdataset leaves its files to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def picture(number: int, form: str = "JPEG") -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (40 + number, 32), (number * 7 % 255, 3, 5)).save(stream, form)
    return stream.getvalue()


def text(number: int) -> bytes:
    return b"a cat, number %d" % number


def pair(image: str, caption: str) -> Callable[[int], list[Entry]]:
    """Return a function that makes the members of a sample from patterns of names."""
    return lambda number: [
        (image.format(number), picture(number)),
        (caption.format(number), text(number)),
    ]


def several_formats(number: int) -> list[Entry]:
    name, form = [("jfif", "JPEG"), ("bmp", "BMP"), ("tif", "TIFF")][number % 3]
    return [(f"{number}.{name}", picture(number, form)), (f"{number}.txt", text(number))]


def cafe(number: int) -> bytes:
    return f"un café, numéro {number}".encode("cp1252")


def nested(number: int) -> bytes:
    return json.dumps({"meta": {"caption": f"a cat {number}"}}).encode()


def json_of_some_is_bad(number: int) -> list[Entry]:
    json_member = b"{'a': 1}" if number % 2 else b'{"a": 1}'
    return [*pair("{}.jpg", "{}.txt")(number), (f"{number}.json", json_member)]


SETS = {
    "--structure-only": pair("photo{}.v1.jpg", "photo{}.v1.txt"),
    "--rename jfif=jpg --rename bmp=jpg --rename tif=jpg": several_formats,
    "--name-images": pair("{}", "{}.txt"),
    # A mask is not the image.
    "--name-images ": lambda number: [
        *pair("{}", "{}.txt")(number),
        (f"{number}.mask.png", picture(number, "PNG")),
    ],
    "--caption-encoding cp1252": lambda number: [
        (f"{number}.jpg", picture(number)),
        (f"{number}.txt", cafe(number)),
    ],
    "--rename jfif=jpg --rename caption=txt --caption-encoding cp1252": lambda number: [
        (f"{number}.jfif", picture(number)),
        (f"{number}.caption", cafe(number)),
    ],
    "--caption json:meta.caption": lambda number: [
        (f"{number}.jpg", picture(number)),
        (f"{number}.json", nested(number)),
    ],
    # shards of two sources
    "--caption json:meta.caption;captions": lambda number: [
        (f"{number}.jpg", picture(number)),
        (
            f"{number}.json",
            nested(number) if number < 6 else b'{"captions": ["a dog %d"], "title": 7}' % number,
        ),
    ],
    "--pair-names": pair("{}/image.jpg", "{}/caption.txt"),
    # json has the name of the image
    "--pair-names ": lambda number: [
        *pair("{:02}/image.jpg", "{:02}/caption.txt")(number),
        (f"{number:02}/image.json", b'{"width": 40}'),
    ],
    "--pair-names --rename jfif=jpg": pair("{}_image.jfif", "{}_caption.txt"),
    "--rename-bad json=json_raw": json_of_some_is_bad,
    "--rename __key__=key_field": lambda number: [
        (f"{number}.jpg", picture(number)),
        (f"{number}.__key__", text(number)),
        (f"{number}.txt", text(number)),
    ],
}


def write_set(folder: Path, make: Callable[[int], list[Entry]]) -> str:
    for shard in range(2):
        samples = [make(number) for number in range(shard * 6, shard * 6 + 6)]
        write_tar(folder / f"{shard}.tar", [member for sample in samples for member in sample])
    return str(folder / "{0..1}.tar")


@pytest.mark.parametrize("options", SETS)
def test_the_plan_has_the_steps_that_bring_all_samples_back(options: str, tmp_path: Path):
    plan = plan_repair(write_set(tmp_path, SETS[options]))
    assert (" ".join(plan.options()), plan.expected_samples) == (options.strip(), 12)


@pytest.mark.sample(2)
@pytest.mark.parametrize("options", SETS)
def test_all_samples_train_after_the_planned_repair(options: str, tmp_path: Path):
    urls = write_set(tmp_path, SETS[options])
    before = trained([str(tmp_path / f"{shard}.tar") for shard in range(2)])
    plan = plan_repair(urls)
    report = repair_shards(urls, tmp_path / "out", plan=plan)
    assert (report.difference, report.steps_without_effect) == ("", [])
    assert before < trained([str(tmp_path / f"out/{shard}.tar") for shard in range(2)]) == 12


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("encoding", "says"),
    [
        ("cp1252", "decode captions from cp1252 (a guess: all 12 make sense in it)"),
        # they have a mark
        ("utf-16", "decode captions from utf-16"),
    ],
)
def test_an_encoding_that_is_guessed_is_named_as_a_guess(encoding: str, says: str, tmp_path: Path):
    caption = "un café".encode(encoding)
    urls = write_set(
        tmp_path, lambda number: [(f"{number}.jpg", picture(number)), (f"{number}.txt", caption)]
    )
    plan = plan_repair(urls)
    assert [step.action for step in plan.steps()] == [says]
    assert f"  step: 12 x {says}" in list(repair_shards(urls, tmp_path / "out", plan=plan).lines())


def test_a_set_that_trains_is_left_as_it_is(tmp_path: Path):
    urls = write_set(tmp_path, pair("{}.jpg", "{}.txt"))
    plan = plan_repair(urls)
    assert (plan, plan.expected_samples) == (RepairPlan(), 12)


def test_nothing_is_lost_where_no_repair_helps(tmp_path: Path):
    urls = write_set(
        tmp_path,
        lambda number: [(f"{number}.jpg", picture(number)), (f"{number}.txt", text(number))][:1],
    )
    plan = plan_repair(urls)
    assert (plan, plan.expected_samples) == (RepairPlan(), 12)


@pytest.mark.deep
def test_a_step_that_costs_another_reader_samples_is_no_part_of_the_plan(tmp_path: Path):
    urls = write_set(
        tmp_path, lambda number: [(f"{number}.jfif", picture(number)), (f"{number}.cls", b"1")]
    )
    assert plan_repair(urls, ["timm"]).options() == ("--rename", "jfif=jpg")
    assert plan_repair(urls).options() == ("--structure-only",)


@pytest.mark.sample(1)
@pytest.mark.parametrize("empty", [b"", b" \n"])
def test_captions_in_json_take_the_place_of_empty_ones(empty: bytes, tmp_path: Path):
    """A reader gets as many samples before: it trains on captions without text."""
    captions = [empty if number % 2 else text(number) for number in range(12)]
    urls = write_set(
        tmp_path,
        lambda number: [
            (f"{number}.jpg", picture(number)),
            (f"{number}.txt", captions[number]),
            (f"{number}.json", nested(number)),
        ],
    )
    plan = plan_repair(urls)
    assert (plan.options(), plan.expected_samples) == (("--caption", "json:meta.caption"), 12)
    report = repair_shards(urls, tmp_path / "out", plan=plan)
    assert (report.difference, report.merged("applied")) == ("", {"--caption json:meta.caption": 6})
    advice = check(urls, jobs=1).advice[0]
    assert (
        advice.action == "write txt from json:meta.caption (captions without text: now 6, then 0)"
    )
    assert (advice.usable, advice.safe) == (None, True)
    assert advice.command.endswith(" --caption json:meta.caption")


@pytest.mark.deep
def test_empty_captions_do_not_keep_other_steps_from_the_plan(tmp_path: Path):
    """The empty ones get their name only by a step."""
    urls = write_set(
        tmp_path,
        lambda number: [
            (f"{number}.tif", picture(number, "TIFF")),
            (f"{number}.txt ", b""),
            (f"{number}.json ", nested(number)),
        ],
    )
    assert plan_repair(urls).options() == (
        *"--pair-names --rename tif=jpg --caption".split(),
        "json:meta.caption",
    )


@pytest.mark.deep
def test_a_mask_is_not_taken_for_the_image(tmp_path: Path):
    urls = write_set(
        tmp_path,
        lambda number: [
            (f"{number}.mask.png", picture(number, "PNG")),
            (f"{number}.txt", text(number)),
        ],
    )
    assert plan_repair(urls) == RepairPlan()


@pytest.mark.deep
def test_empty_captions_without_a_text_elsewhere_need_no_repair(tmp_path: Path):
    urls = write_set(
        tmp_path, lambda number: [(f"{number}.jpg", picture(number)), (f"{number}.txt", b"")]
    )
    assert plan_repair(urls) == RepairPlan()
    assert not any("repair" in advice.command for advice in check(urls, jobs=1).advice)
