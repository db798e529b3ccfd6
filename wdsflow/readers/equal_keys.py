"""Whether samples of a set have the same key, as far as evidence tells."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence

from wdsflow.scan.evidence import ShardEvidence

_SKETCHED = 64  # keys; of shards with more, the sketch has only some
_SURE = 8  # equal hashes: fewer may be chance, where the sketches do not have all keys


def twice_in(shard: ShardEvidence) -> str | None:
    """Return a key that two samples of the shard have, None if there is none."""
    again = (shard.tally("key.again"), shard.tally("key.again-twin"))
    return next((tally.key for tally in again if tally.count), None)


def share_keys(shards: Sequence[ShardEvidence]) -> tuple[ShardEvidence, ShardEvidence] | None:
    """Return two shards of one folder that have a key in common, None if none have or that is not known."""
    for group in _folders(shards):
        owner: dict[int, ShardEvidence] = {}
        for shard in group:
            hashes = _hashes(shard)
            owners = Counter(id(owner[each]) for each in hashes if each in owner)
            for each in (each for each in hashes if each in owner):
                other = owner[each]
                if owners[id(other)] >= _SURE or (_is_whole(shard) and _is_whole(other)):
                    return other, shard
            for each in hashes:
                owner.setdefault(each, shard)
    return None


def may_share_keys(shards: Sequence[ShardEvidence]) -> bool:
    """Return whether shards of one folder may have a key in common: their keys overlap, and not all of them are known."""
    for group in _folders(shards):
        last = last_of_part = ""
        spans = sorted(
            ((*shard.key_span, _is_whole(shard)) for shard in group if shard.key_span), key=lambda span: span[0]
        )
        for number, (start, end, whole) in enumerate(spans):
            if number and start <= (last_of_part if whole else last):
                return True
            last = max(last, end)
            last_of_part = last_of_part if whole else max(last_of_part, end)
    return False


def meetings(shards: Sequence[ShardEvidence]) -> int:
    """Return how many shards end with the key with which another one begins; readers shuffle shards."""
    ends = [(shard.runs.head.key, shard.runs.last.key) for shard in shards if shard.runs.head and shard.runs.last]
    heads = Counter(head for head, _ in ends)
    return sum(heads[last] - (head == last) > 0 for head, last in ends)


def _folders(shards: Sequence[ShardEvidence]) -> Iterable[list[ShardEvidence]]:
    found: dict[str, list[ShardEvidence]] = {}
    for shard in shards:
        found.setdefault(os.path.dirname(shard.url), []).append(shard)
    return found.values()


def _hashes(shard: ShardEvidence) -> list[int]:
    return [*shard.key_sketch, *((1 << 32) + each for each in shard.junk_sketch)]


def _is_whole(shard: ShardEvidence) -> bool:
    """Return whether the sketches have all keys."""
    return len(shard.key_sketch) < _SKETCHED and len(shard.junk_sketch) < _SKETCHED
