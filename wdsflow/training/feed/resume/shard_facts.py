"""What a state knows of the shards of its feed, to say which of them have changed."""

import os
from collections.abc import Sequence
from hashlib import blake2b

from wdsflow.shards.shard import Shard

# A state is small, also of 100,000 shards.
_MOST_ENTRIES = 64


def counted_shards(shards: Sequence[Shard], samples: Sequence[int]) -> dict[str, str]:
    """Return facts about shards with so many samples each, by their names without folders.

    There are at most 64 entries: of more shards, each is for several in a row.
    """
    return _facts(shards, samples, "samples")


def sized_shards(shards: Sequence[Shard]) -> dict[str, str]:
    """Return facts about shards whose samples have not been counted: those of this machine have a size."""
    return _facts(shards, [_size(shard) for shard in shards], "bytes")


def _facts(shards: Sequence[Shard], sizes: Sequence[int], unit: str) -> dict[str, str]:
    entries = min(_MOST_ENTRIES, len(shards))
    facts: dict[str, str] = {}
    for entry in range(entries):
        first = len(shards) * entry // entries
        end = len(shards) * (entry + 1) // entries
        names = [os.path.basename(shard) for shard in shards[first:end]]
        name = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        # In another folder.
        if name in facts:
            name = f"{name} ({first})"
        fact = f"{sum(sizes[first:end]):,} {unit}"
        if len(names) > 1:
            fact += f" ({_digest(names, sizes[first:end])})"
        facts[name] = fact
    return facts


def _size(shard: Shard) -> int:
    """Return the bytes of a shard; 0 if they are unknown."""
    if shard.path is None:
        return 0
    try:
        return os.stat(shard.path).st_size
    except OSError:
        return 0


def _digest(names: Sequence[str], sizes: Sequence[int]) -> str:
    digest = blake2b(digest_size=4)
    for name, size in zip(names, sizes, strict=True):
        digest.update(f"{name} {size}\n".encode(errors="surrogatepass"))
    return digest.hexdigest()
