"""A repair forecast reads as little as the outcome needs.

It reads nothing twice without need.
"""

import gzip
from pathlib import Path

import pytest

from tests.validate.rules.build import Members, jpeg, pairs, png, samples, tar, words
from wdsflow.readers import READERS, scan_options
from wdsflow.repair import RepairPlan
from wdsflow.scan.evidence import Evidence, Level
from wdsflow.scan.scan_pool import scan_shards
from wdsflow.shards.source.base import single_shard
from wdsflow.validate.advice import typical_shards
from wdsflow.validate.advice.repair_choice import choose_repair
from wdsflow.validate.advice.repair_forecast import RepairForecast

PICTURE = jpeg()


def forecast(
    folder: Path, shards: list[Members | bytes], level: Level = "full"
) -> tuple[RepairForecast, list[str]]:
    """Return the forecast of shards, and a list of the shards that it reads.

    The list receives the name of each shard when it is read.
    """
    for number, members in enumerate(shards):
        (folder / f"{number}.tar").write_bytes(
            members if isinstance(members, bytes) else tar(members)
        )
    urls = [single_shard(str(folder / f"{number}.tar")) for number in range(len(shards))]
    readers = [READERS["open-clip-3.3"]()]
    options = scan_options(level, readers, urls)
    read: list[str] = []

    def scan(urls, options, scan_functions):
        read.extend(Path(url).name for url in urls)
        return scan_shards(urls, options, jobs=1, scan_functions=scan_functions)

    return RepairForecast(
        Evidence(level, scan_shards(urls, options, jobs=1)), readers, options, scan
    ), read


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("members", "options"),
    [
        (pairs(4), "--structure-only"),
        (samples(4, jfif=PICTURE, txt=b"a dog"), "--rename jfif=jpg"),
        (
            samples(4, jpg=PICTURE, json=words({"caption": "a dog in the snow"})),
            "--caption json:caption",
        ),
        (gzip.compress(tar(pairs(4))), "--structure-only"),
        # Images that do not decode are no fields to rename.
        ([*pairs(4), *samples(2, start=9, png=b"not an image", txt=b"a dog")], "--structure-only"),
    ],
)
def test_no_shard_is_read_again_if_its_evidence_tells_the_outcome(
    tmp_path: Path, members, options: str
):
    repairs, read = forecast(tmp_path, [members, members])
    chosen = choose_repair(repairs)
    assert (" ".join(chosen.plan.options()), chosen.after[0].usable, read) == (options, 8, [])


def test_only_shards_whose_outcome_is_in_doubt_are_read_again(tmp_path: Path):
    apart = sorted(pairs(4), key=lambda member: member[0][-3:])
    repairs, read = forecast(tmp_path, [pairs(4, start=10), apart])
    assert choose_repair(repairs).after[0].usable == 8
    assert set(read) == {"1.tar"}


def test_of_many_shards_of_a_kind_two_decide_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(typical_shards, "_SMALL_SET", 0)
    captions = [
        samples(3, start=10 * n, jpg=PICTURE, txt="un café".encode("cp1252")) for n in range(6)
    ]
    rare = samples(3, start=90, jfif=PICTURE, txt=b"a dog")
    repairs, read = forecast(tmp_path, [*captions, rare])
    chosen = choose_repair(repairs)
    assert " ".join(chosen.plan.options()) == "--rename jfif=jpg --caption-encoding cp1252"
    assert (chosen.plan.expected_samples, chosen.after[0].usable) == (21, 21)
    assert {read.count(f"{number}.tar") for number in range(2, 6)} == {1}
    assert chosen.plan.guessed_from == 18


@pytest.mark.deep
def test_where_images_are_not_decoded_each_shard_in_doubt_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """This is how shards on a server are read."""
    monkeypatch.setattr(typical_shards, "_SMALL_SET", 0)
    shards = [sorted(pairs(4, start=10 * n), key=lambda member: member[0][-3:]) for n in range(5)]
    repairs, read = forecast(tmp_path, shards, "headers")
    assert choose_repair(repairs).after[0].usable == 20
    assert sorted(read) == [f"{number}.tar" for number in range(5)]


@pytest.mark.deep
def test_an_encoding_is_guessed_only_if_the_captions_of_all_shards_make_sense_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(typical_shards, "_SMALL_SET", 0)
    captions = ["un café".encode("cp1252")] * 3 + ["кошка на снегу".encode("koi8-r")]
    shards = [
        samples(3, start=10 * n, jpg=PICTURE, txt=caption) for n, caption in enumerate(captions)
    ]
    repairs, _ = forecast(tmp_path, shards)
    assert choose_repair(repairs).plan.encoding == ""


def test_the_chosen_plan_is_judged_by_decoded_images(tmp_path: Path):
    """Headers decide which plan is the best."""
    good = png()
    start = good.index(b"IDAT") + 8
    broken = good[:start] + b"\xff" * 8 + good[start + 8 :]
    members = [
        *samples(3, png=good, caption=b"a dog"),
        *samples(1, start=9, png=broken, caption=b"a dog"),
    ]
    repairs, _ = forecast(tmp_path, [members])
    chosen = choose_repair(repairs)
    assert chosen.plan == RepairPlan(rename=(("caption", "txt"),))
    assert chosen.after[0].usable == 3
