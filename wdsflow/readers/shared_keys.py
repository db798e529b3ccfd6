"""Keys that several samples of a set have, within a shard or in several."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from wdsflow.scan.evidence import ShardEvidence

# Keys; of shards with more, the sketch has only some.
_SKETCHED = 64
# Equal hashes: fewer may be chance, where the sketches do not have all keys.
_SURE = 8


def repeated_key(shard: ShardEvidence) -> str | None:
    """Return a key that two samples of the shard have, None if there is none."""
    for name in ("key.again", "key.again-twin"):
        tally = shard.tally(name)
        if tally.count:
            return tally.key
    return None


def shards_sharing_a_key(
    shards: Sequence[ShardEvidence],
) -> tuple[ShardEvidence, ShardEvidence] | None:
    """Return two shards of one folder that have a key in common, or None.

    None if there are none, or if that is unknown.
    """
    for group in _folders(shards):
        # The first shard with a hash.
        owners: dict[int, ShardEvidence] = {}
        for shard in group:
            hashes = _hashes(shard)
            others = [owners[value] for value in hashes if value in owners]
            shared = Counter(map(id, others))
            for other in others:
                has_all_keys = _has_all_keys(shard) and _has_all_keys(other)
                if has_all_keys or shared[id(other)] >= _SURE:
                    return other, shard
            for value in hashes:
                owners.setdefault(value, shard)
    return None


def may_share_keys(shards: Sequence[ShardEvidence]) -> bool:
    """Return whether shards of one folder may have a key in common.

    They may if their ranges of keys overlap and some keys are unknown.
    """
    for group in _folders(shards):
        spans = [
            _KeySpan(*shard.key_span, _has_all_keys(shard))
            for shard in group
            if shard.key_span is not None
        ]
        spans.sort(key=lambda span: span.first)
        # The last key of the spans before; of those whose keys are not all known.
        last = ""
        last_of_partial = ""
        for number, span in enumerate(spans):
            # Two shards of which all keys are known have been compared.
            before = last_of_partial if span.complete else last
            if number and span.first <= before:
                return True
            last = max(last, span.last)
            if not span.complete:
                last_of_partial = max(last_of_partial, span.last)
    return False


def continued_shards(shards: Sequence[ShardEvidence]) -> int:
    """Return how many shards end with the key with which another shard begins.

    Any of these may follow each other, because readers shuffle shards.
    """
    ends = [
        (shard.runs.head.key, shard.runs.last.key)
        for shard in shards
        if shard.runs.head and shard.runs.last
    ]
    first_keys = Counter(first for first, _ in ends)
    count = 0
    for first, last in ends:
        others = first_keys[last] - (first == last)
        count += others > 0
    return count


class _KeySpan(NamedTuple):
    """The first and last key of a shard, and whether its sketches have all keys."""

    first: str
    last: str
    complete: bool


def _folders(shards: Sequence[ShardEvidence]) -> Iterable[list[ShardEvidence]]:
    groups: dict[str, list[ShardEvidence]] = {}
    for shard in shards:
        groups.setdefault(os.path.dirname(shard.url), []).append(shard)
    return groups.values()


def _hashes(shard: ShardEvidence) -> list[int]:
    """Return the hashes of a shard's keys; those of junk never equal others."""
    return [*shard.key_sketch, *((1 << 32) + value for value in shard.junk_sketch)]


def _has_all_keys(shard: ShardEvidence) -> bool:
    """Return whether the sketches have all keys."""
    return len(shard.key_sketch) < _SKETCHED and len(shard.junk_sketch) < _SKETCHED
