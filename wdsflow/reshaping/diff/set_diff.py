"""What differs between two sets; its size does not grow with the number of samples."""

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from wdsflow.records.counts import Counts

SIDES = ("A", "B")


@dataclass
class SideFacts:
    """One of the sets."""

    shards: list[str] = field(default_factory=list)
    samples: int = 0
    repeated: int = 0  # samples whose key another sample of the set had before
    fields: Counter[str] = field(default_factory=Counter)  # name -> samples that have it
    bytes: Counter[str] = field(default_factory=Counter)  # name -> bytes
    left_out: Counter[str] = field(default_factory=Counter)  # members of no sample, by reason
    trouble: list[str] = field(default_factory=list)  # what could not be read
    rows: int = 0  # of its ledgers


@dataclass
class ScoreDiff:
    """A score, or the outcome, of samples that are in both ledgers."""

    compared: int = 0
    changed: int = 0
    numbers: int = 0  # pairs of numbers
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0])
    largest: float = 0.0  # difference


@dataclass(order=True)
class Example:
    """A sample that differs. Ordered by its place, that of set A first."""

    place: tuple[int, int, int]  # side, shard, number in the shard
    key: str
    shard: str = field(compare=False, default="")
    fields: dict[str, str] = field(compare=False, default_factory=dict)  # name -> "added", "removed" or "changed"
    captions: list[tuple[str, str | None, str | None]] = field(
        compare=False, default_factory=list
    )  # name, before, after


@dataclass
class SetDiff:
    """Two sets, compared. The samples of each are those that are the same, those that changed and those only in it.

    A sample is compared with one of the same key. A key that occurs several times is compared as often: first those that
    are the same, then the others in their order.
    """

    sides: tuple[SideFacts, SideFacts] = field(default_factory=lambda: (SideFacts(), SideFacts()))
    same: int = 0
    changed: int = 0
    only: list[int] = field(default_factory=lambda: [0, 0])
    fields: dict[str, Counter[str]] = field(default_factory=dict)  # name -> "added", "removed", "changed" -> samples
    scores: dict[str, ScoreDiff] = field(default_factory=dict)
    only_scored: list[int] = field(default_factory=lambda: [0, 0])  # rows of one ledger only
    shown: int = 20  # examples of each kind
    changed_examples: list[Example] = field(default_factory=list)
    only_examples: tuple[list[Example], list[Example]] = field(default_factory=lambda: ([], []))

    @property
    def is_same(self) -> bool:
        """Whether both sets have the same samples, and the same scores where there are any."""
        scores = any(score.changed for score in self.scores.values()) or any(self.only_scored)
        return not (self.changed or any(self.only) or scores)

    @property
    def trouble(self) -> list[str]:
        """What could not be read, of both sets."""
        return [text for side in self.sides for text in side.trouble]

    @property
    def exit_status(self) -> int:
        """As of diff(1): 0 if the sets are the same, 1 if they differ, 2 if something could not be read."""
        return 2 if self.trouble else 0 if self.is_same else 1

    def check(self) -> None:
        """Raise RuntimeError if a sample is unaccounted for."""
        for side, only in zip(self.sides, self.only, strict=True):
            Counts("samples", side.samples, self.same, {"changed": self.changed, "only here": only}).check(str(self))

    def note(self, examples: list[Example], example: Example) -> None:
        """Keep the first examples by place."""
        examples.append(example)
        if len(examples) > 2 * self.shown + 64:
            self.trim(examples)

    def trim(self, examples: list[Example]) -> None:
        """Let go of all examples but the first ones, in order."""
        examples[:] = heapq.nsmallest(self.shown, examples)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        sides = zip(SIDES, self.sides, self.only, self.only_examples, self.only_scored, strict=True)
        return {
            "version": 1,
            "same": self.is_same,
            "exit_status": self.exit_status,
            "samples": {"same": self.same, "changed": self.changed},
            "sets": {
                name: {
                    "shards": len(side.shards),
                    "samples": side.samples,
                    "repeated_keys": side.repeated,
                    "only_here": only,
                    "examples": [{"key": each.key, "shard": each.shard} for each in examples],
                    "fields": {
                        each: {"samples": side.fields[each], "bytes": side.bytes[each]} for each in sorted(side.fields)
                    },
                    "members_of_no_sample": dict(side.left_out),
                    "ledger_rows": side.rows,
                    "ledger_rows_only_here": only_scored,
                    "trouble": side.trouble,
                }
                for name, side, only, examples, only_scored in sides
            },
            "fields": {name: dict(counts) for name, counts in sorted(self.fields.items())},
            "changed": [
                {
                    "key": each.key,
                    "shard": each.shard,
                    "fields": each.fields,
                    "captions": [{"field": name, "before": old, "after": new} for name, old, new in each.captions],
                }
                for each in self.changed_examples
            ],
            "scores": {name: vars(score) for name, score in sorted(self.scores.items())},
        }
