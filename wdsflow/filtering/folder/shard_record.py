"""The result of one shard: a line of the manifest."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from wdsflow.filtering.kinds import kind_of
from wdsflow.records.counts import Counts
from wdsflow.records.line import Line
from wdsflow.shards.source.base import Range


@dataclass
class ShardRecord(Line):
    """A finished shard."""

    passing: ClassVar[frozenset[str]] = frozenset({"struck"})

    shard: int  # its index among all shards of the run
    url: str
    name: str  # of the output
    recipe: str  # digest
    input: dict[str, Any]
    samples: int = 0
    kept: int = 0
    uncounted: int = 0  # kept, but no samples to readers: of a key that came before
    dropped: dict[str, int] = field(default_factory=dict)  # term of the predicate -> samples
    quarantined: dict[str, int] = field(default_factory=dict)  # error -> samples
    failed: dict[str, int] = field(
        default_factory=dict
    )  # score: error -> samples, including samples decided without the score
    members: int = 0
    left_out: dict[str, int] = field(
        default_factory=dict
    )  # reason why members belong to no sample -> number of members
    headers: list[Range] = field(default_factory=list)  # global PAX headers
    damage: list[str] = field(default_factory=list)
    output: dict[str, Any] | None = None  # identity of the tar, None if no sample was kept
    # Tars of a file of JSON lines: identity, with the samples in it.
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    ledger: dict[str, Any] = field(default_factory=dict)  # identity
    quarantine: dict[str, Any] | None = None  # identity
    # "dropped TERM", "quarantined ERROR", "failed SCORE: ERROR" -> key of the first such sample, and what is known of it.
    examples: dict[str, tuple[str, str]] = field(default_factory=dict)
    # Scores that failed for all samples: how often, error and detail. Not in the manifest.
    struck: dict[str, tuple[int, str, str]] = field(default_factory=dict)

    @property
    def counted(self) -> int:
        """The samples of the output as readers count them."""
        return self.kept - self.uncounted

    @property
    def tars(self) -> list[str]:
        """The names of the written tars."""
        return [self.name] if self.output is not None and kind_of(self.name).is_tar else [*self.parts]

    @property
    def origin(self) -> dict[str, Any]:
        """What decides its files."""
        return {"from": [self.shard, self.url], "recipe": self.recipe, "input": self.input}

    def sums(self) -> Iterable[Counts]:
        """Yield the counts of samples."""
        yield Counts("samples", self.samples, self.kept, Counter(self.dropped) + Counter(self.quarantined))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {name: value for name, value in super().to_dict().items() if value or name != "uncounted"}

    @classmethod
    def from_line(cls, line: bytes) -> "ShardRecord":
        """Read a line. Raises ValueError if it is invalid: cut, of another version, or of another form."""
        record = super().from_line(line)
        if not all(isinstance(part.get("samples"), int) for part in record.parts.values()):
            raise ValueError("a tar without its number of samples")
        return record


@dataclass
class ShardFailure:
    """A shard that could not be processed; the next run tries it again.

    ``kind``: that of a SourceError, "ledger" if its ledger does not fit, otherwise "". ``lacks``: the score that the
    ledger lacks, if that is the reason.
    """

    shard: int
    url: str
    name: str
    reason: str
    kind: str = ""
    lacks: str = ""
