"""A choice of shards that is large enough to compare repairs."""

from collections import Counter
from collections.abc import Sequence

from wdsflow.scan.evidence import ShardEvidence

# Bytes of shards that are all used to compare plans, and of more shards, how many of a kind.
_SMALL_SET = 64 << 20
_OF_A_KIND = 2


def typical_shards(shards: Sequence[ShardEvidence]) -> list[ShardEvidence]:
    """Return two shards of each kind, in order; all of them if they are small."""
    sizes = [shard.size for shard in shards]
    are_known = None not in sizes
    if are_known and sum(size or 0 for size in sizes) <= _SMALL_SET:
        return list(shards)
    # Kind of a shard -> how many of it are taken.
    kinds: Counter[object] = Counter()
    typical: list[ShardEvidence] = []
    for shard in shards:
        fields = frozenset(name for name in shard.fields if "." not in name)
        traits = frozenset(name for name, tally in shard.tallies.items() if tally.count)
        kind = fields, traits, shard.compression, shard.error, shard.encoding is None
        kinds[kind] += 1
        if kinds[kind] <= _OF_A_KIND:
            typical.append(shard)
    return typical
