"""Random sets with several faults at once.

Compares what the planned repair promises with what it writes, and with what OpenCLIP's loader
reads.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.repair.test_planned_repair import picture
from tests.repair.test_repair_readers import trained
from tests.shards.archives import Entry, tar_bytes
from wdsflow import plan_repair, repair_shards
from wdsflow.readers import READERS, resolve, scan_options
from wdsflow.readers.base import Options
from wdsflow.readers.installed_versions import versions
from wdsflow.scan.evidence import Evidence
from wdsflow.scan.scan_pool import scan_shards
from wdsflow.shards.source.base import single_shard
from wdsflow.validate import Verdict
from wdsflow.validate.verdicts.judge import judge

# webdataset leaves its files to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

IMAGES = [
    ("jpg", "JPEG"),
    ("png", "PNG"),
    ("jfif", "JPEG"),
    ("bmp", "BMP"),
    ("tif", "TIFF"),
    ("", "JPEG"),
]
Fault = Callable[[list[list[Entry]], random.Random], list[list[Entry]]]


def random_samples(rng: random.Random, shard: int) -> list[list[Entry]]:
    """Return samples of an image and a caption each, in the file layout of a random set."""
    extensions = rng.sample(IMAGES, rng.choice([1, 1, 2]))
    place = rng.choice(["txt", "txt", "txt", "caption", "json", "nested"])
    encoding = rng.choice(["utf-8", "utf-8", "cp1252", "utf-16"])
    layout = rng.choice(["plain", "plain", "folder", "words", "case", "space"])
    prefix = rng.choice(["", "", "/abs/", "./", "d/"])
    keys = rng.choice(["{}{:03}", "{}{:03}", "photo {}.{:03}"])
    samples: list[list[Entry]] = []
    for number in range(rng.randrange(2, 7)):
        key = keys.format(shard, number)
        extension, form = rng.choice(extensions)
        text = f"un café près du port, numéro {number} de {shard}"
        data, field = text.encode(encoding), place
        if place in ("json", "nested"):
            tree: object = (
                {"caption": text}
                if place == "json"
                else {"meta": [{"caption": text}], "id": number}
            )
            data, field = json.dumps(tree).encode(), "json"
        image_name, text_name = names(layout, key, extension, field)
        samples.append([(prefix + image_name, picture(number, form)), (prefix + text_name, data)])
    return samples


def names(layout: str, key: str, image: str, text: str) -> tuple[str, str]:
    """Return the names of image and text in a layout."""
    dot = f".{image}" if image else ""
    if layout == "folder" and image:
        return f"{key}/image{dot}", f"{key}/caption.{text}"
    if layout == "words" and image:
        return f"{key}_image{dot}", f"{key}_caption.{text}"
    if layout == "case" and image:
        return f"A{key}{dot}", f"a{key}.{text}"
    return f"{key}{dot}", f"{key}.{text} " if layout == "space" else f"{key}.{text}"


def bad_json(samples: list[list[Entry]], rng: random.Random) -> list[list[Entry]]:
    """Add json that does not parse to some samples that have none."""
    for sample in samples:
        name, _ = sample[0]
        stem = name.rpartition(".")[0]
        if stem and "json" not in sample[1][0] and rng.random() < 0.5:
            sample.append((f"{stem}.json", b"{'a'"))
    return samples


def no_image(samples: list[list[Entry]], rng: random.Random) -> list[list[Entry]]:
    """Damage an image."""
    sample = rng.choice(samples)
    sample[0] = (sample[0][0], b"not found")
    return samples


def twins(samples: list[list[Entry]], _: random.Random) -> list[list[Entry]]:
    """Add the files of a Mac."""
    for sample in samples:
        folder, slash, base = sample[0][0].rpartition("/")
        sample.insert(1, (f"{folder}{slash}._{base}", b"\0" * 16))
    return samples


def untouched(samples: list[list[Entry]], _: random.Random) -> list[list[Entry]]:
    return samples


FAULTS: list[Fault] = [untouched, untouched, bad_json, no_image, twins]


def random_set(rng: random.Random, folder: Path) -> list[str]:
    """Write one or two shards, which may be made in different ways."""
    urls: list[str] = []
    is_mixed = rng.random() < 0.3
    seed = rng.randrange(1 << 30)
    for shard in range(rng.choice([1, 2])):
        own = random.Random(f"{seed} {shard}" if is_mixed else seed)
        samples = random_samples(own, shard)
        for fault in rng.sample(FAULTS, 2):
            samples = fault(samples, rng)
        members = [member for sample in samples for member in sample]
        if rng.random() < 0.2:
            members.sort(key=lambda member: member[0].rpartition(".")[2])
        data = tar_bytes(members)
        if rng.random() < 0.1:
            data = data[: len(data) * 2 // 3]
        path = folder / f"{shard}.tar"
        path.write_bytes(data)
        urls.append(str(path))
    return urls


def check(seed: int, folder: Path) -> None:
    """Repair for OpenCLIP, and compare the promise with what its own loader gets."""
    folder.mkdir()
    urls = random_set(random.Random(seed), folder)
    (name,) = resolve("open-clip", versions())
    before = verdicts(urls)[name].usable
    plan = plan_repair(urls)
    report = repair_shards(urls, folder / "out", plan=plan, jobs=1)
    outputs = [shard.output for shard in report.shards if shard.output]
    after = verdicts(outputs)[name].usable if outputs else 0
    really = trained(outputs) if outputs else 0
    words = f"seed {seed}, {' '.join(plan.options())}"
    assert plan.expected_samples == report.total("samples_written"), words
    assert [step.option for step in report.steps_without_effect] == [], words
    assert before <= after == really, words


def check_for_all(seed: int, folder: Path) -> None:
    """Repair for all readers of captions: none may get fewer samples.

    Nor may a reader crash and so get none at all.
    """
    folder.mkdir()
    urls = random_set(random.Random(seed), folder)
    names = [name for name, reader in READERS.items() if reader.pairs_with == "caption"]
    before = verdicts(urls)
    plan = plan_repair(urls, names)
    report = repair_shards(urls, folder / "out", plan=plan, jobs=1)
    after = verdicts([shard.output for shard in report.shards if shard.output])
    assert plan.expected_samples == report.total("samples_written")
    for name in names:
        words = f"seed {seed}, {name}, {' '.join(plan.options())}"
        if after[name].outcome == "crashes":
            assert before[name].outcome == "crashes" or not before[name].usable, words
        else:
            assert before[name].usable <= after[name].usable, words


def verdicts(urls: list[str]) -> dict[str, Verdict]:
    readers = [reader(Options()) for reader in READERS.values()]
    shards = [single_shard(url) for url in urls]
    evidence = Evidence("full", scan_shards(shards, scan_options("full", readers, shards), jobs=1))
    return {reader.name: judge(evidence, reader) for reader in readers}


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_a_planned_repair_keeps_its_promise(first: int, tmp_path: Path):
    for seed in range(first, first + 20):
        check(seed, tmp_path / str(seed))


def test_a_field_that_is_named_by_its_first_bytes_is_not_renamed_too(tmp_path: Path):
    check(1696, tmp_path / "set")


def test_a_repair_for_several_readers_takes_nothing_from_any(tmp_path: Path):
    for seed in range(20):
        check_for_all(seed, tmp_path / str(seed))


@pytest.mark.deep
def test_many_planned_repairs_keep_their_promises(tmp_path: Path):
    for seed in range(1_000, 2_000):
        check(seed, tmp_path / str(seed))
        check_for_all(seed, tmp_path / f"{seed}-all")
