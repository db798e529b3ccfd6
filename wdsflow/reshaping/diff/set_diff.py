"""Differences between two sets, as text for a terminal and as Markdown."""

import heapq
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from wdsflow.records.line import Counts
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many, size

SIDES = ("A", "B")


@dataclass
class SideFacts:
    """One of the sets."""

    shards: list[str] = field(default_factory=list)
    samples: int = 0
    repeated: int = 0  # samples whose key is a duplicate in the set
    fields: Counter[str] = field(default_factory=Counter)  # name -> samples that have it
    bytes: Counter[str] = field(default_factory=Counter)  # name -> bytes
    left_out: Counter[str] = field(default_factory=Counter)  # members of no sample, by reason
    trouble: list[str] = field(default_factory=list)  # read errors
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
    """A sample that differs. Ordered by place, set A first."""

    place: tuple[int, int, int]  # side, shard, number in the shard
    key: str
    shard: str = field(compare=False, default="")
    fields: dict[str, str] = field(compare=False, default_factory=dict)  # name -> "added", "removed" or "changed"
    captions: list[tuple[str, str | None, str | None]] = field(
        compare=False, default_factory=list
    )  # name, before, after


@dataclass
class SetDiff:
    """Two sets, compared. The samples of each set are unchanged, changed, or only in this set.

    A sample is compared with one of the same key. Samples of a duplicate key are compared in pairs: first equal ones,
    then the others in order.
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
        """Whether both sets have the same samples, and the same scores if there are any."""
        scores = any(score.changed for score in self.scores.values()) or any(self.only_scored)
        return not (self.changed or any(self.only) or scores)

    @property
    def trouble(self) -> list[str]:
        """Read errors of both sets."""
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
        """Drop all examples except the first ones, in order."""
        examples[:] = heapq.nsmallest(self.shown, examples)

    def to_dict(self) -> dict[str, object]:
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


_CAPTION, _NAME = 400, 200  # characters that are shown


def text_lines(found: SetDiff) -> Iterator[str]:
    """Yield the report for a terminal."""
    for name, side in zip(SIDES, found.sides, strict=True):
        yield f"{name}: {_about(side)}"
        for trouble in side.trouble:
            yield f"   could not be read: {escape(trouble, 500)}"
    yield ""
    for name, side, only in zip(SIDES, found.sides, found.only, strict=True):
        yield (
            f"{how_many(side.samples, 'sample')} in {name} = {found.same:,} the same + {found.changed:,} changed"
            f" + {only:,} only in {name}"
        )
    if found.fields:
        yield "\nfields"
        yield from (f"  {escape(name, _NAME)}: {_counted(counts)}" for name, counts in sorted(found.fields.items()))
    yield from _changed(found)
    for name, only, examples in zip(SIDES, found.only, found.only_examples, strict=True):
        if examples:
            yield f"\nonly in {name}{_of(examples, only)}"
            yield from (f"  {escape(each.key, _NAME)}  ({escape(each.shard, _NAME)})" for each in examples)
    yield from _scores(found)
    yield ""
    yield verdict(found)


def markdown_lines(found: SetDiff) -> Iterator[str]:
    """Yield the report as Markdown; nothing of the data is interpreted."""
    yield f"### Shards: {verdict(found)}"
    yield ""
    yield "| | A | B |\n|---|---:|---:|"
    yield f"| samples | {found.sides[0].samples:,} | {found.sides[1].samples:,} |"
    yield f"| the same | {found.same:,} | {found.same:,} |"
    yield f"| changed | {found.changed:,} | {found.changed:,} |"
    yield f"| only here | {found.only[0]:,} | {found.only[1]:,} |"
    yield f"| shards | {len(found.sides[0].shards):,} | {len(found.sides[1].shards):,} |"
    yield f"| bytes of fields | {size(found.sides[0].bytes.total())} | {size(found.sides[1].bytes.total())} |"
    for name, side in zip(SIDES, found.sides, strict=True):
        yield from (f"\n**{name} could not be read:** {_code(trouble, 500)}" for trouble in side.trouble)
    if found.fields:
        yield "\n**Fields**\n"
        yield from (f"- {_code(name)}: {_counted(counts)}" for name, counts in sorted(found.fields.items()))
    if found.scores or any(found.only_scored):
        yield "\n**Scores**\n"
        yield from (f"- {_code(name)}: {_score(score)}" for name, score in sorted(found.scores.items()))
        yield f"- rows only in the ledgers of A: {found.only_scored[0]:,}, of B: {found.only_scored[1]:,}"
    if found.changed_examples:
        yield from _details("Changed", found.changed_examples, found.changed)
        for each in found.changed_examples:
            yield f"- {_code(each.key)}: {', '.join(f'{_code(name)} {what}' for name, what in each.fields.items())}"
            for _, before, after in each.captions:
                yield f"  - before: {_caption(before)}"
                yield f"  - after: {_caption(after)}"
        yield "\n</details>"
    for name, only, examples in zip(SIDES, found.only, found.only_examples, strict=True):
        if examples:
            yield from _details(f"Only in {name}", examples, only)
            yield from (f"- {_code(each.key)} in {_code(each.shard)}" for each in examples)
            yield "\n</details>"


def verdict(found: SetDiff) -> str:
    """Return a line on whether the sets are the same."""
    if found.trouble:
        return f"{how_many(len(found.trouble), 'shard')} could not be read whole: what is reported is about the rest"
    if found.is_same:
        return f"the same: {how_many(found.same, 'sample')}"
    scores = sum(score.changed for score in found.scores.values())
    parts = [
        *([f"{found.changed:,} changed"] if found.changed else []),
        *(f"{only:,} only in {name}" for name, only in zip(SIDES, found.only, strict=True) if only),
        *([f"{how_many(scores, 'score')} changed"] if scores else []),
        *([f"{sum(found.only_scored):,} in one ledger only"] if any(found.only_scored) else []),
    ]
    return f"NOT the same: {', '.join(parts)}; {how_many(found.same, 'sample')} the same"


def _about(side: SideFacts) -> str:
    fields = ", ".join(escape(each, 60) for each in sorted(side.fields)[:8])
    left_out = f"; {how_many(side.left_out.total(), 'member')} of no sample" if side.left_out else ""
    repeated = f"; {how_many(side.repeated, 'repeated key')}" if side.repeated else ""
    held = f"{how_many(side.samples, 'sample')}, {size(side.bytes.total())} in {fields or 'no fields'}"
    return f"{how_many(len(side.shards), 'shard')}, {held}{repeated}{left_out}"


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{what} in {counts[what]:,}" for what in ("changed", "added", "removed") if counts.get(what))


def _of(examples: Sequence[Example], total: int) -> str:
    return f" (the first {len(examples):,} of {total:,})" if len(examples) < total else ""


def _changed(found: SetDiff) -> Iterator[str]:
    if not found.changed_examples:
        return
    yield f"\nchanged{_of(found.changed_examples, found.changed)}"
    for each in found.changed_examples:
        fields = ", ".join(f"{escape(name, 60)} {what}" for name, what in each.fields.items())
        yield f"  {escape(each.key, _NAME)}: {fields}"
        for _, before, after in each.captions:
            yield from (
                f"    {mark} {escape(text, _CAPTION)}"
                for mark, text in zip("-+", (before, after), strict=True)
                if text is not None
            )


def _scores(found: SetDiff) -> Iterator[str]:
    if not (found.scores or any(found.only_scored)):
        return
    yield "\nscores"
    yield from (f"  {escape(name, _NAME)}: {_score(score)}" for name, score in sorted(found.scores.items()))
    for name, only in zip(SIDES, found.only_scored, strict=True):
        if only:
            yield f"  only in the ledgers of {name}: {how_many(only, 'sample')}"


def _score(score: ScoreDiff) -> str:
    changed = f"{score.changed:,} of {score.compared:,} changed"
    if not score.numbers:
        return changed
    before, after = (total / score.numbers for total in score.sums)
    return f"{changed}, mean {before:.6g} in A, {after:.6g} in B, largest difference {score.largest:.6g}"


def _details(title: str, examples: Sequence[Example], total: int) -> Iterator[str]:
    yield f"\n<details><summary>{title}{_of(examples, total)}</summary>\n"


def _caption(text: str | None) -> str:
    return "none" if text is None else _code(text, _CAPTION)


def _code(text: str, limit: int = _NAME) -> str:
    """Return text as Markdown code, between more backticks than it has in a row.

    >>> _code("a`b"), _code("`")
    ('``a`b``', '`` ` ``')
    """
    shown = escape(text, limit) or " "
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    blank = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{fence}{blank}{shown}{blank}{fence}"
