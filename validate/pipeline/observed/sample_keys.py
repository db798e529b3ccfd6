"""The keys of samples in one run: in the shards, at the entry, and at the exit."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from ..reports.run_lists import read_keys

ShardAndKey = tuple[str, str]


class SampleKeys:
    """The keys that a run has listed.

    Args:
        folder: of the run.
        in_shards: shard and key of each sample of the shards, in order; empty if there are too many
            to compare.
    """

    def __init__(self, folder: Path, in_shards: Sequence[ShardAndKey]) -> None:
        self.in_shards = in_shards
        self.entered = Counter(read_keys(folder, "entered"))
        # The numbers of the items of a map-style dataset,
        # of which it is not visible which samples they are.
        self.items = Counter(key for _, key in read_keys(folder, "items"))
        self.delivered = [key for _, key in read_keys(folder, "delivered")]
        # Of equal keys, the last one.
        self._numbers = {key: number for number, (_, key) in enumerate(in_shards)}

    @property
    def identifies_samples(self) -> bool:
        """Whether the keys that came out show which samples of the shards these are."""
        if not self.delivered:
            return False
        samples = self.in_shards or list(self.entered)
        if not samples:
            # Without the keys of the shards, two equal ones may be those of two samples.
            return len(set(self.delivered)) == len(self.delivered)
        keys = {key for _, key in samples}
        return len(keys) == len(samples) and keys.issuperset(self.delivered)

    @property
    def shards(self) -> set[str]:
        """The shards of the samples that entered.

        If these have no URL, the shards of the samples that came out.
        """
        entered = {shard for shard, _ in self.entered if shard}
        if entered or not self.in_shards or not self.identifies_samples:
            return entered
        return {self.in_shards[self._numbers[key]][0] for key in self.delivered}

    def repeated(self) -> int:
        """Return how many samples entered again.

        If it is not visible what entered, returns how many came out again.
        """
        if self.items:
            return self.items.total() - len(self.items)
        if not self.entered:
            return len(self.delivered) - len(set(self.delivered))
        in_shards = Counter(self.in_shards)
        repeated = 0
        for sample, count in self.entered.items():
            # Two samples of one shard may have the same key.
            repeated += max(0, count - max(1, in_shards[sample]))
        return repeated

    def total_with_repeats(self) -> int:
        """Return of how many samples ``repeated`` are those that had come before."""
        return self.items.total() or self.entered.total() or len(self.delivered)

    def delivered_once(self) -> int:
        """Return how many samples came out, without repeats.

        A sample counts at most as often as it entered; several elements of one sample count once.
        """
        if not self.entered:
            return len(set(self.delivered))
        entered = Counter[str]()
        for (_, key), count in self.entered.items():
            entered[key] += count
        return (Counter(self.delivered) & entered).total()

    def in_order(self) -> bool:
        """Return whether the samples came out in the order of the shards.

        Returns False if that is not known.
        """
        if not self.in_shards:
            return False
        numbers = [self._numbers[key] for key in self.delivered]
        return all(before <= after for before, after in pairwise(numbers))

    def samples_until_last(self) -> int:
        """Return how many samples the shards hold up to the last one that came out."""
        return 1 + max(self._numbers[key] for key in self.delivered)

    def missing(self, until: int) -> list[ShardAndKey]:
        """Return shard and key of those of the first ``until`` samples that did not come out."""
        delivered = set(self.delivered)
        return [(shard, key) for shard, key in self.in_shards[:until] if key not in delivered]
