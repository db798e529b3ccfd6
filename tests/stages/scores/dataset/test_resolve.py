import random
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from tests.stages.scores.fields import made
from wdsflow.stages.scores import View
from wdsflow.stages.scores.comparing import near_table

LITTLE, PLENTY = 1, 256 << 20


def records(count, width, seed, keys=60, flips=0):
    """Records of few keys over several shards, some with several items, and numbers with gaps."""
    rng = random.Random(seed)
    pool = [rng.randbytes(width) for _ in range(keys)]

    def key():
        value = int.from_bytes(rng.choice(pool), "big")
        for _ in range(rng.randrange(flips + 1)):
            value ^= 1 << rng.randrange(8 * width)
        return value.to_bytes(width, "big")

    places = rng.sample(range(10 * count), count)
    return sorted(
        (
            place // count * 70_001,
            place % count * 97,
            b"".join(key() for _ in range(rng.choice((1, 1, 1, 3)))),
        )
        for place in places
    )


def in_items(given, width, value):
    """Apply a function to each key in the order of places."""
    found = []
    for shard, sample, data in given:
        values = [value(data[start : start + width]) for start in range(0, len(data), width)]
        found.append((shard, sample, values[0] if len(values) == 1 else values))
    return found


def repeated(given):
    seen = set()

    def again(key):
        known = key in seen
        seen.add(key)
        return known

    return in_items(given, 16, again)


def counted(given):
    counts = {}
    in_items(given, 16, lambda key: counts.update({key: counts.get(key, 0) + 1}))
    return in_items(given, 16, counts.__getitem__)


def kept_greedily(given, distance):
    left = []

    def near(key):
        value = int.from_bytes(key, "big")
        if any((value ^ other).bit_count() <= distance for other in left):
            return True
        left.append(value)
        return False

    return in_items(given, 8, near)


def resolved(score, given, folder, memory, seed=0):
    shuffled = random.Random(seed).sample(given, len(given))
    result = list(score.resolve(iter(shuffled), folder, memory=memory))
    assert list(folder.iterdir()) == []
    return result


@pytest.mark.sample(2)
@pytest.mark.parametrize("memory", [LITTLE, PLENTY])
@pytest.mark.parametrize("count", [0, 1, 3000])
def test_all_but_the_first_are_duplicates_whatever_the_order(tmp_path, count, memory):
    given = records(count, 16, seed=1)
    for seed in range(2):
        assert resolved(made("duplicate"), given, tmp_path, memory, seed) == repeated(given)


@pytest.mark.parametrize("memory", [LITTLE, PLENTY])
def test_captions_are_counted_whatever_the_order(tmp_path, memory):
    given = records(3000, 16, seed=2)
    assert resolved(made("caption_count"), given, tmp_path, memory) == counted(given)


@pytest.mark.sample(1)
@pytest.mark.parametrize("memory", [LITTLE, PLENTY])
@pytest.mark.parametrize("distance", [0, 1, 4, 10])
def test_no_two_that_stay_are_near_each_other_and_each_other_is_near_one_that_stays(
    tmp_path, distance, memory
):
    given = records(500, 8, seed=distance, flips=6)
    expected = kept_greedily(given, distance)
    assert resolved(made("near_duplicate", distance=distance), given, tmp_path, memory) == expected


@pytest.mark.parametrize("distance", [1, 4])
def test_near_hashes_are_the_same_if_only_a_part_is_in_memory(tmp_path, distance, monkeypatch):
    # Pairs that differ in any of the bits, so that each table of blocks has some.
    rng = random.Random(distance)
    hashes = [rng.getrandbits(64) for _ in range(40)]
    hashes += [each ^ 1 << rng.randrange(64) for each in hashes]
    # Near one that does not stay: it stays.
    hashes += [hashes[0] ^ (1 << distance) - 1, hashes[0] ^ (1 << 2 * distance) - 1]
    given = [(0, number, each.to_bytes(8, "big")) for number, each in enumerate(hashes)]
    score = made("near_duplicate", distance=distance)
    expected = [(0, number, 40 <= number < 81) for number in range(82)]
    assert resolved(score, given, tmp_path, PLENTY) == expected
    monkeypatch.setattr(near_table, "_PAIRS", 4)
    for most in (8, 79):
        monkeypatch.setattr(near_table, "_LEAST_HASHES", most)
        assert resolved(score, given, tmp_path, LITTLE) == expected


@pytest.mark.parametrize("count", [9, 10])
def test_sizes_outside_of_the_quartiles_are_odd(tmp_path, count):
    # Of nine the quartiles are two of them, which are not odd.
    sides = [100, 104, 108, 112, 116, 120, 136, 10, 80, 140][:count]
    given = [
        (number % 2, number, (side * 2).to_bytes(4, "big") + (side // 2).to_bytes(4, "big"))
        for number, side in enumerate(sides)
    ]
    for factor in (0.0, 0.5, 1.0, 3.0):
        first, third = np.percentile(sides, [25, 75])
        reach = factor * (third - first)
        odd = [not first - reach <= side <= third + reach for side in sides]
        expected = sorted((number % 2, number, odd[number]) for number in range(count))
        found = resolved(made("odd_size", iqr_factor=factor), given, tmp_path, PLENTY)
        assert found == expected
    assert resolved(made("odd_size"), [], tmp_path, PLENTY) == []


def test_keys_that_share_their_first_half_are_told_apart(tmp_path):
    given = [(0, number, bytes(8) + bytes([number % 5] * 8)) for number in range(50)]
    assert resolved(made("duplicate"), given, tmp_path, PLENTY) == repeated(given)


def test_a_record_that_was_cut_is_refused(tmp_path):
    for data in (b"", b"x" * 15, b"x" * 24):
        with pytest.raises(ValueError, match="was it cut"):
            list(made("duplicate").resolve([(0, 7, data)], tmp_path))
    assert list(tmp_path.iterdir()) == []


def peak(name, count, folder):
    """Return the peak of Python's memory, in bytes, while ``count`` records are compared.

    One third of the keys are random, all others are equal.
    """
    width = 8 if name == "near_duplicate" else 16
    rng = random.Random(4)
    given = (
        (number // 100, number % 100, bytes(width) if number % 3 else rng.randbytes(width))
        for number in range(count)
    )
    score = made(name)
    # What is imported only once.
    sum(1 for _ in score.resolve([(0, 0, bytes(width))], folder, memory=1 << 19))
    tracemalloc.start()
    total = sum(1 for _ in score.resolve(given, folder, memory=1 << 19))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == count
    return most


@pytest.mark.deep
@pytest.mark.parametrize(
    "name",
    [
        "duplicate",
        pytest.param("caption_count", marks=pytest.mark.deep),
        pytest.param("near_duplicate", marks=pytest.mark.deep),
    ],
)
def test_ten_times_the_records_take_no_more_memory(tmp_path, name):
    """Beside a few bytes for each. In a process of its own: threads of other tests would count."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        few, many = (
            process.submit(peak, name, count, tmp_path).result() for count in (20_000, 100_000)
        )
    assert many < few + 8 * 100_000


def test_iteration_that_is_given_up_leaves_nothing_behind(tmp_path):
    given = records(500, 16, seed=1)
    values = made("duplicate").resolve(given, tmp_path, memory=LITTLE)
    next(values)
    values.close()
    assert list(tmp_path.iterdir()) == []


def test_images_and_captions_are_gathered_as_they_are_compared():
    fields = {"0.jpg": b"one", "1.jpg": b"other", "txt": b"A  Cat\n"}
    duplicate = made("duplicate").gather(View(fields))
    assert len(duplicate) == 32
    assert duplicate[16:] == made("duplicate", image="1.jpg").gather(View(fields))
    count = made("caption_count")
    assert (
        count.gather(View(fields))
        == count.gather(View({"txt": b"a cat"}))
        != count.gather(View({"txt": b"a dog"}))
    )
