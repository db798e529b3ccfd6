"""Shards for a short look at a set."""

from collections.abc import Sequence

from .shard import Shard

# Shards that a short look reads, at most. A pipe must be read to its end.
_MOST = {"pipe": 4, "url": 200, "file": 2_000}


def spread_selection(urls: Sequence[Shard]) -> Sequence[Shard]:
    """Return shards for a short look, spread evenly: all, unless they are many or remote."""
    kind = urls[0].kind if urls else "file"
    most = _MOST[kind]
    if len(urls) <= most:
        return urls
    return [urls[number * len(urls) // most] for number in range(most)]
