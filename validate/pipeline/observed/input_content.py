"""The contents of the samples that entered a pipeline: what its output is compared with."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..values.sample_contents import SampleContent


@dataclass(frozen=True, slots=True)
class InputSample:
    """A sample that entered, and how often."""

    content: SampleContent
    times: int = 1

    @property
    def whole(self) -> str:
        """A text that is equal for samples of equal content."""
        return " ".join(sorted(f"{name} {marks[0]}" for name, marks in self.content.items()))


@dataclass(frozen=True)
class InputContent:
    """The samples that entered, and how often their values do."""

    samples: Sequence[InputSample]

    @cached_property
    def entered(self) -> int:
        """Samples, each as often as it entered."""
        return sum(sample.times for sample in self.samples)

    @cached_property
    def fields(self) -> dict[str, Counter[str]]:
        """How often each value of each field entered, in any of its forms."""
        fields: dict[str, Counter[str]] = {}
        for sample in self.samples:
            for name, marks in sample.content.items():
                counts = fields.setdefault(name, Counter())
                for mark in marks:
                    counts[mark] += sample.times
        return fields

    @cached_property
    def partitions(self) -> list[Counter[str]]:
        """How often each value of each field entered, and how often each whole sample did.

        Each value is counted in one form only.
        """
        partitions: dict[str, Counter[str]] = {}
        for sample in self.samples:
            for name, marks in sample.content.items():
                partitions.setdefault(name, Counter())[marks[0]] += sample.times
        return [*partitions.values(), self.whole_counts]

    @cached_property
    def whole_contents(self) -> list[str]:
        """The content of each sample."""
        return [sample.whole for sample in self.samples]

    @cached_property
    def whole_counts(self) -> Counter[str]:
        """How often each content entered."""
        counts: Counter[str] = Counter()
        for whole, sample in zip(self.whole_contents, self.samples, strict=True):
            counts[whole] += sample.times
        return counts

    def holders(self, field: str) -> dict[str, frozenset[int]]:
        """Return the numbers of the samples with each value of a field."""
        holders: dict[str, set[int]] = {}
        for number, sample in enumerate(self.samples):
            for mark in sample.content.get(field, []):
                holders.setdefault(mark, set()).add(number)
        return {mark: frozenset(numbers) for mark, numbers in holders.items()}
