"""The result of a check of random samples."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from .binomial_test import SampledOutcome

# Lost samples that are listed.
_LISTED = 10
_MOST_LETTERS = 300
_CLAIMS: dict[SampledOutcome, str] = {
    "proven": "at most",
    "refuted": "more than",
    "undecided": "not decided whether at most",
}


@dataclass
class SampledReport:
    """What was drawn, and what it proves."""

    outcome: SampledOutcome = "undecided"
    readers: list[str] = field(default_factory=list)
    confidence: float = 0.0
    # Share of samples that may be lost.
    max_loss: float = 0.0
    draws: int = 0
    # Shard and reason of each lost sample.
    lost: list[tuple[str, str]] = field(default_factory=list)
    # The share of lost samples is at most this, with the confidence of the check.
    bound: float = 1.0
    shards: int = 0
    drawn_shards: int = 0
    # Shards were drawn by the number of their samples.
    by_samples: bool = False
    level: str = "headers"

    def lines(self) -> Iterator[str]:
        """Yield the report: what is guaranteed, and what is not."""
        readers = ", ".join(self.readers)
        claim = f"{_CLAIMS[self.outcome]} {self.max_loss:.4g} of the samples are lost by {readers}"
        yield f"{self.outcome}: {claim}, at confidence {self.confidence:.4g}"
        shards = f"{self.drawn_shards:,} of {how_many(self.shards, 'shard')}"
        drawn = f"{self.draws:,} random samples of {shards}, {len(self.lost):,} lost"
        if self.bound < 1:
            drawn += f"; by them the share is at most {self.bound:.4g}"
        yield f"  {drawn}"
        base = "each shard, averaged over the shards"
        if self.by_samples:
            base = "all samples, as sizes.json counts them"
        error = f"at most {1 - self.confidence:.4g} of such checks prove the opposite"
        yield f"  the share is that of {base}; if it is above {self.max_loss:.4g}, {error}"
        yield f"  samples were judged individually, at level {self.level}; not judged: the set as a whole, such as repeated keys,"
        yield "  types of columns, missing shards and the forecast of a training run; for these, leave out --confidence"
        for shard, reason in self.lost[:_LISTED]:
            yield f"  lost: {escape(shard, _MOST_LETTERS)}: {escape(reason, _MOST_LETTERS)}"
