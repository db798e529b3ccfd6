"""A repair never writes fewer usable samples than a reader gets from its input.

Random sets are judged before and after the repair.
"""

import gzip
import io
import random
from functools import cache
from pathlib import Path

import pytest
from PIL import Image

from tests.shards.archives import Entry, tar_bytes
from wdsflow import repair_shards
from wdsflow.readers import READERS, scan_options
from wdsflow.readers.base import Options
from wdsflow.scan.evidence import Evidence
from wdsflow.scan.scan_pool import scan_shards
from wdsflow.shards.source.base import single_shard
from wdsflow.validate.verdicts.judge import judge

# These read field names as they are spelled, and expect the fields of the first samples in all: JPG
# is no image for them, and need not decode.
MINDS_CASE = {"datasets", "datasets-tables", "ray-data", "energon", "energon-crude"}
FIELDS = [
    *[["jpg", "txt"]] * 4,
    ["jpg", "txt", "json"],
    ["png", "txt"],
    ["jpg", "cls", "txt"],
    ["jpg", "json"],
    ["jpg"],
    ["txt"],
    ["JPG", "TXT"],
    ["jpg", "txt", "png"],
    ["jpg", "seg.png", "txt"],
]
KEYS = [
    ["0", "1", "2", "3"],
    ["a.1", "a.2", "b.1"],
    ["x", "X", "y"],
    [f"k{number}" for number in range(9)],
    ["0"],
]
FOLDERS = [[""], [""], ["", "./"], ["a/", "b/"], ["img/"], [".hid/"], ["", "/"]]
JUNK = ["README", "._0.jpg", "d/._0.jpg", ".DS_Store", "x/.jpg", "q"]


@cache
def pictures() -> list[bytes]:
    found = []
    for number in range(6):
        stream = io.BytesIO()
        Image.new("RGB", (8 + number, 8), (number * 37, 3, 5)).save(stream, "JPEG")
        found.append(stream.getvalue())
    return found


def contents(field: str, rng: random.Random) -> bytes:
    kind = field.lower().rpartition(".")[2]
    if kind in ("jpg", "png"):
        return rng.choice(pictures())
    if kind == "txt":
        return rng.choice([b"a cat", b"a dog", b"a bird"])
    return b'{"w": %d}' % rng.randrange(9) if kind == "json" else b"%d" % rng.randrange(9)


def random_members(rng: random.Random, shard: int, prefix: str) -> list[Entry]:
    """Return members of one shard: of its samples some share a key, are apart, or are mixed."""
    keys = [f"{shard}{key}" for key in rng.choice(KEYS)]
    folders, fields = rng.choice(FOLDERS), rng.choice(FIELDS)
    is_uniform, repeats = rng.random() < 0.6, rng.random() < 0.6
    samples: list[list[Entry]] = []
    for number in range(rng.randrange(1, 9)):
        key = rng.choice(keys) if repeats else keys[number % len(keys)]
        names = fields if is_uniform else rng.choice(FIELDS)
        folder = rng.choice(folders)
        samples.append([(f"{prefix}{folder}{key}.{name}", contents(name, rng)) for name in names])
    if rng.random() < 0.2:
        samples.insert(rng.randrange(len(samples) + 1), [(prefix + rng.choice(JUNK), b"junk")])
    members = [member for sample in samples for member in sample]
    order = rng.choice(["adjacent", "adjacent", "apart", "mixed", "shuffled"])
    if order == "apart":
        members = [
            member
            for place in range(4)
            for sample in samples
            for member in sample[place : place + 1]
        ]
    elif order == "mixed":
        members = mixed(samples, rng)
    elif order == "shuffled":
        rng.shuffle(members)
    if rng.random() < 0.1:
        members.insert(rng.randrange(len(members) + 1), rng.choice(members))
    return members * 2 if rng.random() < 0.1 else members


def mixed(samples: list[list[Entry]], rng: random.Random) -> list[Entry]:
    """Return the members of neighbouring samples in turn."""
    members: list[Entry] = []
    rest = [list(sample) for sample in samples]
    while rest:
        sample = rng.choice(rest[:2])
        members.append(sample.pop(0))
        rest = [sample for sample in rest if sample]
    return members


def usable(urls: list[str]) -> dict[str, int]:
    readers = [reader(Options()) for reader in READERS.values()]
    shards = [single_shard(url) for url in urls]
    options = scan_options("full", readers, shards)
    evidence = Evidence("full", scan_shards(shards, options, jobs=1), [])
    return {reader.name: judge(evidence, reader).usable for reader in readers}


def random_set(folder: Path, rng: random.Random) -> tuple[list[str], bool]:
    """Write shards; return them, and whether a field has letters in upper case."""
    prefix = rng.choice(["", "", "", "/abs/", "./", "d/", "../"])
    urls: list[str] = []
    has_upper = False
    for number in range(rng.choice([1, 1, 2])):
        members = random_members(rng, number, prefix)
        has_upper = has_upper or any("JPG" in name for name, _ in members)
        data = tar_bytes(members)
        if rng.random() < 0.1:
            data += tar_bytes(members[: len(members) // 2])
        is_packed = rng.random() < 0.2
        path = folder / f"{number}.tar{'.gz' * is_packed}"
        path.write_bytes(gzip.compress(data, 1) if is_packed else data)
        urls.append(str(path))
    return urls, has_upper


def check(seed: int, folder: Path) -> None:
    urls, has_upper = random_set(folder, random.Random(seed))
    before = usable(urls)
    report = repair_shards(urls, folder / "out", jobs=1)
    outputs = [shard.output for shard in report.shards if shard.output]
    after = usable(outputs) if outputs else dict.fromkeys(before, 0)
    for reader, count in before.items():
        if not (has_upper and reader in MINDS_CASE):
            assert after[reader] >= count, (
                f"seed {seed}: {reader} got {count}, and now {after[reader]}"
            )


@pytest.mark.sample(1)
@pytest.mark.parametrize("first", range(0, 120, 10))
def test_no_reader_gets_fewer_samples_after_a_repair(first: int, tmp_path: Path):
    for seed in range(first, first + 10):
        (tmp_path / str(seed)).mkdir()
        check(seed, tmp_path / str(seed))


# A reader gets samples of this set only because junk is its first sample.
JUNK_FIRST = 3846


def test_no_reader_gets_fewer_samples_where_junk_was_the_first_sample(tmp_path: Path):
    check(JUNK_FIRST, tmp_path)


def test_a_sample_whose_fields_all_others_have_comes_first_in_place_of_junk(tmp_path: Path):
    image = pictures()[0]
    names = ["d/.DS_Store", "d/a.jpg", "d/a.seg.png", "d/a.txt", "d/b.jpg", "d/b.txt"]
    contents = [b"junk", image, image, b"a cat", image, b"a dog"]
    (tmp_path / "0.tar").write_bytes(tar_bytes(list(zip(names, contents, strict=True))))
    urls = [str(tmp_path / "0.tar")]
    assert usable(urls)["ray-data"] == 2
    report = repair_shards(urls, tmp_path / "out", jobs=1)
    assert usable([str(tmp_path / "out/0.tar")])["ray-data"] == 2
    assert report.merged("fixed") == {"samples put first, as all others have their fields": 1}


@pytest.mark.deep
def test_no_reader_gets_fewer_samples_after_many_repairs(tmp_path: Path):
    for seed in range(1_000, 4_000):
        (tmp_path / str(seed)).mkdir()
        check(seed, tmp_path / str(seed))
