import random

import numpy as np
import pytest

from wdsflow.stages.scores.comparing import near_hashes as near
from wdsflow.stages.scores.comparing.hash_bits import bits_of, count_ones
from wdsflow.stages.scores.comparing.hash_blocks import plan_blocks
from wdsflow.stages.scores.comparing.near_hashes import near_pairs


def clustered(count, seed, flips=7, free=(1 << 64) - 1):
    """Distinct hashes around a few centres."""
    rng = random.Random(seed)
    bits = bits_of(free)
    base = rng.getrandbits(64) & ~free
    centres = [rng.getrandbits(64) & free for _ in range(max(1, count // 40))]
    found = set()
    while len(found) < count:
        value = rng.choice(centres)
        for bit in rng.sample(bits, rng.randrange(flips)):
            value ^= 1 << bit
        found.add(value | base)
    return np.array(rng.sample(sorted(found), count), np.uint64)


ONES = np.array([value.bit_count() for value in range(256)])


def by_comparing(hashes, distance):
    expected = set()
    for place, one in enumerate(hashes):
        bits = ONES[(hashes[place + 1 :] ^ one).view(np.uint8).reshape(-1, 8)].sum(1)
        expected |= {(place, place + 1 + int(other)) for other in np.flatnonzero(bits <= distance)}
    return expected


def found(hashes, distance, **more):
    listed = [
        tuple(sorted(pair))
        for one, other in near_pairs(hashes, distance, **more)
        for pair in zip(one.tolist(), other.tolist(), strict=True)
    ]
    assert len(listed) == len(set(listed)), "a pair came twice"
    return set(listed)


@pytest.mark.parametrize("distance", [0, 1, 2, 4, 7, 10])
@pytest.mark.parametrize("count", [0, 1, 2, 9, 700])
@pytest.mark.parametrize("few", [4, 512])
def test_all_pairs_are_found_and_each_once(count, distance, few, monkeypatch):
    monkeypatch.setattr(near, "_FEW", few)
    hashes = clustered(count, seed=count + distance)
    expected = by_comparing(hashes, distance)
    assert found(hashes, distance) == expected
    assert count < 700 or distance == 0 or len(expected) > 100


@pytest.mark.sample(1)
@pytest.mark.parametrize("distance", [1, 4])
def test_tables_are_used_where_they_save_work_and_find_the_same(distance, monkeypatch):
    def never(*_):
        raise AssertionError("compared one by one")

    rng = random.Random(2)
    spread = [rng.getrandbits(64) for _ in range(3000)]
    hashes = np.concatenate([clustered(300, 1), np.array(spread, np.uint64)])
    expected = by_comparing(hashes, distance)
    monkeypatch.setattr(near, "_all_pairs", never)
    assert found(hashes, distance) == expected
    assert len(expected) > 50


@pytest.mark.sample(1)
@pytest.mark.parametrize("distance", [1, 4, 8])
def test_hashes_that_differ_in_few_bits_at_all_are_split_by_the_others(distance, monkeypatch):
    """As those of drawings do: most of their frequencies are nothing."""
    monkeypatch.setattr(near, "_FEW", 16)
    free = sum(1 << bit for bit in (3, 9, 11, 20, 21, 22, 33, 40, 47, 52, 60, 63))
    hashes = clustered(1500, 3, flips=12, free=free)
    assert found(hashes, distance) == by_comparing(hashes, distance)


def test_blocks_hold_each_bit_once_and_more_hashes_make_longer_keys():
    last = 0
    for count in (10, 10**4, 10**6, 10**8, 10**10):
        equal, blocks = plan_blocks(count, (1 << 64) - 1, 4)
        assert len(blocks) == equal + 4
        assert sum(blocks) == (1 << 64) - 1
        assert equal >= last
        last = equal
    assert last > 2


def test_ones_are_counted_with_an_older_numpy_too(monkeypatch):
    values = np.array(
        [0, 1, (1 << 64) - 1, 0x8000000000000001, *clustered(500, 1).tolist()], np.uint64
    )
    expected = [int(value).bit_count() for value in values]
    assert count_ones(values).tolist() == expected
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    assert count_ones(values).tolist() == expected
