"""What a state knows of the shards of its feed, to say which of them have changed."""

import os
from collections.abc import Sequence
from hashlib import blake2b

from wdsflow.shards.shard import Shard
from wdsflow.text.words import how_many

# A state is small, also of 100,000 shards.
_MOST_ENTRIES = 64
# Sizes of more shards are not looked up: each takes a request where the disk is in a network.
_MOST_SIZES = 4096
# Names the entry with the number of shards. If that differs, nothing is said of the others: with
# one shard fewer, each has other shards.
ALL = "all of them"


def counted_shards(shards: Sequence[Shard], samples: Sequence[int]) -> dict[str, str]:
    """Return facts about shards with so many samples each, by their names without folders.

    Of more than 64 shards, each entry is for several in a row, and ``ALL`` has their number.
    """
    return _facts(shards, [how_many(count, "sample") for count in samples])


def sized_shards(shards: Sequence[Shard]) -> dict[str, str]:
    """Return facts about shards whose samples have not been counted.

    Local shards have a size, unless there are very many shards.
    """
    looks = len(shards) <= _MOST_SIZES
    return _facts(shards, [_size(shard) if looks else "there" for shard in shards])


def _facts(shards: Sequence[Shard], facts: Sequence[str]) -> dict[str, str]:
    entries = min(_MOST_ENTRIES, len(shards))
    of_entries: dict[str, str] = {}
    if len(shards) > entries:
        of_entries[ALL] = f"{len(shards):,} shards"
    for entry in range(entries):
        first = len(shards) * entry // entries
        end = len(shards) * (entry + 1) // entries
        names = [_name(shard) for shard in shards[first:end]]
        several = len(names) > 1
        name = f"{names[0]} to {names[-1]}" if several else names[0]
        # In another folder.
        if name in of_entries:
            name = f"{name} ({first})"
        of_entries[name] = _digest(names, facts[first:end]) if several else facts[first]
    return of_entries


def _name(shard: Shard) -> str:
    """Return the name of a shard without its folder, or a command."""
    return shard if shard.is_pipe else os.path.basename(shard)


def _size(shard: Shard) -> str:
    if shard.path is None:
        return "there"
    try:
        return f"{os.stat(shard.path).st_size:,} bytes"
    except OSError:
        return "missing"


def _digest(names: Sequence[str], facts: Sequence[str]) -> str:
    digest = blake2b(digest_size=4)
    for name, fact in zip(names, facts, strict=True):
        digest.update(f"{name} {fact}\n".encode(errors="surrogatepass"))
    return digest.hexdigest()
