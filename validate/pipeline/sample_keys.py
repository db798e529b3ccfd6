"""The keys of samples in one run: those in the shards, those that entered the pipeline, and those that came out of it."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

from .run_reports import read_keys


class SampleKeys:
    """The keys that a run has noted.

    Args:
        folder: of the run.
        held: shard and key of each sample of the shards, in order; empty if there are too many to compare.
    """

    def __init__(self, folder: Path, held: list[tuple[str, str]]) -> None:
        self.held = held
        self.entered = Counter(read_keys(folder, "entered"))  # shard and key, or the number of an item
        self.delivered = [key for _, key in read_keys(folder, "delivered")]
        self._numbers = {key: number for number, (_, key) in enumerate(held)}

    @property
    def identify(self) -> bool:
        """Whether the keys that came out say which samples of the shards these are."""
        unique = bool(self.held) and len(self._numbers) == len(self.held)
        return unique and bool(self.delivered) and all(key in self._numbers for key in self.delivered)

    @property
    def shards(self) -> set[str]:
        """The shards of the samples that entered or, if they have no url, of those that came out."""
        entered = {shard for shard, _ in self.entered if shard}
        return entered or {self.held[self._numbers[key]][0] for key in self.delivered if self.identify}

    def repeated(self) -> int:
        """Return how many samples entered again, or came out again if it is not visible what entered."""
        if self.entered:
            held = Counter(self.held)
            return sum(max(0, count - max(1, held[sample])) for sample, count in self.entered.items())
        return len(self.delivered) - len(set(self.delivered))

    def delivered_once(self) -> int:
        """Return how many samples came out, each as often as it entered at most: several elements of one count once."""
        entered = Counter[str]()
        for (_, key), count in self.entered.items():
            entered[key] += count
        return (Counter(self.delivered) & entered).total() if entered else len(set(self.delivered))

    def in_order(self) -> bool:
        """Whether the samples came out in the order of the shards."""
        return all(one <= other for one, other in pairwise(self._numbers[key] for key in self.delivered))

    def until_last(self) -> int:
        """Return how many samples the shards hold up to the last one that came out."""
        return 1 + max(self._numbers[key] for key in self.delivered)

    def missing(self, until: int) -> list[tuple[str, str]]:
        """Return shard and key of those of the first samples that did not come out."""
        delivered = set(self.delivered)
        return [sample for sample in self.held[:until] if sample[1] not in delivered]
