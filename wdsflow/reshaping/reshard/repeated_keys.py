"""Keys that occur again in an output: readers would join these samples, or see two of one key."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from wdsflow.text.words import how_many

from .output_job import OutputShardJob
from .row_file import KEY, PIECE


class RepeatedKeys(ValueError):
    """Duplicate keys in a shard, if they are to be refused."""


def refuse_repeated(jobs: Sequence[OutputShardJob]) -> None:
    """Raise RepeatedKeys if samples would get another key."""
    samples = 0
    shards = 0
    for job in jobs:
        count = len(repeated_keys(job))
        samples += count
        shards += bool(count)
    if samples:
        raise RepeatedKeys(
            f"{how_many(samples, 'sample')} would share a shard with another sample of the same key,"
            f" in {how_many(shards, 'shard')}"
        )


def repeated_keys(job: OutputShardJob) -> dict[int, int]:
    """Return the rows whose key readers would confuse with an earlier sample's.

    Each row has the number that its key gets.

    These are the second and further samples of a key in a shard, and the first ones if the previous
    shard ends with that key. The second sample gets the number 2.
    """
    keys = job.rows.read(job.start, job.end)[:, KEY]
    counts: Counter[int] = Counter()
    count_before = repeats_before(job)
    if count_before:
        counts[int(keys[0])] = count_before
    sorted_keys = np.sort(keys)
    repeated = set(sorted_keys[1:][sorted_keys[1:] == sorted_keys[:-1]].tolist()) | set(counts)
    if not repeated:
        return {}
    numbers: dict[int, int] = {}
    is_repeated = np.isin(keys, np.array(list(repeated), np.uint64))
    for position in np.flatnonzero(is_repeated).tolist():
        key = int(keys[position])
        counts[key] += 1
        if counts[key] > 1:
            numbers[job.start + position] = counts[key]
    return numbers


def repeats_before(job: OutputShardJob) -> int:
    """Return how many samples directly before the output have the key of its first one."""
    if not job.start:
        return 0
    key = job.rows.read(job.start, job.start + 1)[0, KEY]
    end = job.start
    while end:
        start = max(0, end - PIECE)
        other_keys = np.flatnonzero(job.rows.read(start, end)[:, KEY] != key)
        if len(other_keys):
            last_other = start + int(other_keys[-1])
            return job.start - last_other - 1
        end = start
    return job.start
