"""Which shards a cache keeps: decisions from lists alone."""

import random

import numpy as np
import pytest

from tests.shards.cache.minimum import downloads_by_recency, fewest_downloads
from wdsflow.shards.cache.policy import NEVER, UNPLANNED, Kept, next_uses, victims


def downloads(uses: list[int], room: int) -> list[bool]:
    """Return which uses download their shard, by the policy of the cache."""
    kept: set[int] = set()
    done = np.zeros(len(uses), bool)
    downloaded = []
    for position, shard in enumerate(uses):
        done[position] = True
        downloaded.append(shard not in kept)
        if shard in kept:
            continue
        needed = next_uses(np.array(uses, np.uint64), done)
        stored = [Kept(str(one), 1, needed.get(one, NEVER)) for one in kept]
        chosen = victims(stored, len(kept) + 1 - room, needed.get(shard, NEVER))
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
    kept = [Kept("a", 10, 9), Kept("b", 10, 1)]
    assert victims(kept, 15, next_use=5) is None
    assert victims(kept, 10, next_use=5) == kept[:1]
    assert victims(kept, 0, next_use=NEVER) == []


def test_of_shards_that_nobody_needs_the_one_used_least_recently_goes():
    kept = [Kept("old", 10, NEVER, 1.0), Kept("new", 10, NEVER, 2.0), Kept("needed", 10, 4)]
    assert victims(kept, 5, UNPLANNED) == kept[:1]
    assert victims(kept, 25, UNPLANNED) is None
    assert victims(kept, 25, next_use=2) == kept
