"""Which shards a cache keeps: decisions from lists alone."""

import random

import numpy as np
import pytest

from tests.shards.cache.minimum import downloads_by_recency, fewest_downloads
from wdsflow.shards.cache.policy import NEVER, UNPLANNED, CachedShard, next_uses, victims


def downloads(uses: list[int], room: int, sizes: list[int] | None = None) -> list[bool]:
    """Return which uses download their shard, by the policy of the cache."""
    sizes = sizes or [1] * 12
    kept: set[int] = set()
    done = np.zeros(len(uses), bool)
    downloaded = []
    for position, shard in enumerate(uses):
        done[position] = True
        downloaded.append(shard not in kept)
        if shard in kept:
            continue
        needed = next_uses(np.array(uses, np.uint64), done)
        stored = [CachedShard(str(one), sizes[one], needed.get(one, NEVER)) for one in kept]
        new = CachedShard(str(shard), sizes[shard], needed.get(shard, NEVER))
        if new.size > room:
            continue
        chosen = victims(stored, new, sum(one.size for one in stored) + new.size - room)
        if chosen is not None:
            kept = kept - {int(one.name) for one in chosen} | {shard}
    return downloaded


@pytest.mark.parametrize("room", [0, 1, 3, 6, 9, 12])
def test_no_policy_downloads_less(room):
    rng = random.Random(room)
    for _ in range(20):
        uses = [shard for _ in range(4) for shard in rng.sample(range(12), 12)]
        assert sum(downloads(uses, room)) == sum(fewest_downloads(uses, room))
        uses = rng.choices(range(12), k=60)
        assert sum(downloads(uses, room)) == sum(fewest_downloads(uses, room))


def test_a_later_epoch_downloads_what_there_is_no_room_for():
    uses = list(range(10)) * 3
    assert sum(downloads(uses, 7)[10:20]) == 3
    # Each shard goes just before it is needed again.
    assert sum(downloads_by_recency(uses, 7)[10:20]) == 10


def test_nothing_is_removed_for_a_shard_that_does_not_fit_anyway():
    kept = [CachedShard("a", 10, 9), CachedShard("b", 10, 1)]
    assert victims(kept, CachedShard("new", 15, 5), 15) is None
    assert victims(kept, CachedShard("new", 10, 5), 10) == kept[:1]
    assert victims(kept, CachedShard("new", 10, NEVER), 0) == []


def test_of_shards_that_nobody_needs_the_one_used_least_recently_goes():
    old = CachedShard("old", 10, NEVER, 1.0)
    kept = [CachedShard("new", 10, NEVER, 2.0), old, CachedShard("needed", 10, 4)]
    assert victims(kept, CachedShard("unplanned", 9, UNPLANNED), 5) == [old]
    assert victims(kept, CachedShard("unplanned", 29, UNPLANNED), 25) is None
    assert victims(kept, CachedShard("sooner", 29, 2), 25) == [old, kept[0], kept[2]]


def test_no_more_bytes_go_than_are_won():
    kept = [CachedShard("small", 9, 9), CachedShard("large", 100, 8), CachedShard("fits", 11, 7)]
    # The one that is needed last is too small; the first that is large enough is worth more.
    assert victims(kept[:2], CachedShard("new", 10, 1), 10) is None
    assert victims([kept[0], kept[2]], CachedShard("new", 10, 1), 10) == [kept[2]]
    several = [CachedShard(str(number), 3, 9 - number) for number in range(5)]
    assert victims(several, CachedShard("new", 10, 1), 10) == several[:4]


@pytest.mark.parametrize("room", [3, 6, 9])
def test_sizes_that_differ_a_little_cost_little(room):
    rng = random.Random(room)
    sizes = [rng.randint(95, 105) for _ in range(12)]
    later = []
    for _ in range(20):
        uses = [shard for _ in range(5) for shard in rng.sample(range(12), 12)]
        later.append(sum(downloads(uses, 100 * room, sizes)[12:]))
    # One more of each epoch at most, next to as many shards of equal size.
    assert sum(later) / len(later) <= 4 * (12 - room + 1)
