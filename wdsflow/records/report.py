"""What a run did: the lines of its outputs, summed up."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from wdsflow.text.escape import escape
from wdsflow.text.words import how_many

from .line import Line

L = TypeVar("L", bound=Line)


@dataclass(kw_only=True)
class Report(Generic[L]):
    """What became of all outputs of a run.

    Attributes:
        resumed: outputs that an earlier run had finished.
        changed: outputs that were written again, and why.
        stale_removed: temporary files of killed runs that were removed.
    """

    resumed: int = 0
    changed: list[str] = field(default_factory=list)
    stale_removed: int = 0

    @property
    def outcomes(self) -> Sequence[L]:
        """The outputs, in order."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise RuntimeError if the counts of an output do not add up."""
        for each in self.outcomes:
            each.check()

    def total(self, name: str) -> int:
        """Sum a number over the outputs."""
        return sum(int(getattr(each, name)) for each in self.outcomes)

    def merged(self, name: str) -> Counter[str]:
        """Sum counts by reason over the outputs."""
        found: Counter[str] = Counter()
        for each in self.outcomes:
            found.update(getattr(each, name))
        return +found

    def again_lines(self, did: str, most: int | None = None) -> Iterator[str]:
        """Yield why outputs were written again."""
        yield from (f"{did} again: {escape(line, 600)}" for line in self.changed[:most])

    @property
    def done_before(self) -> str:
        """How many outputs an earlier run had finished, in brackets; "" for none."""
        return f" ({how_many(self.resumed, 'shard')} done before)" if self.resumed else ""
