"""What a feed needs next, for the cache of its shards."""

import weakref

from wdsflow.shards.cache.entry import url_number
from wdsflow.shards.cache.shard_cache import ShardCache
from wdsflow.shards.shard import Shard
from wdsflow.training.ranks import local_ranks

from .recipe import FeedRecipe

# Epochs that are foreseen: on a single machine a shard is needed again in the next one; if there
# are more machines, another one may get it for some epochs.
_LEAST, _MOST = 3, 16


class CachePlan:
    """Notes which shards a feed opens in the coming epochs.

    It ends with the last reference to it.
    """

    def __init__(self, recipe: FeedRecipe, cache: ShardCache) -> None:
        self._order, self._cache = recipe.order, cache
        self._plan = cache.new_plan()
        machines = -(-recipe.job_rank.world_size // local_ranks())
        self._epochs = min(_MOST, max(_LEAST, 2 * machines))
        weakref.finalize(self, cache.end_plan, self._plan)

    def begin(self, epoch: int) -> None:
        """Note what is needed from the beginning of an epoch on."""
        numbers: dict[Shard, int] = {}
        uses: list[int] = []
        of_epoch = 0
        for later in range(epoch, epoch + self._epochs):
            for shard in self._order.opened_shards(later):
                if shard.kind != "url":
                    continue
                if shard not in numbers:
                    numbers[shard] = url_number(shard)
                uses.append(numbers[shard])
            if later == epoch:
                of_epoch = len(uses)
        self._cache.begin_epoch(self._plan, uses, of_epoch)

    def close(self) -> None:
        """Need nothing until the next epoch begins."""
        self._cache.end_plan(self._plan)
