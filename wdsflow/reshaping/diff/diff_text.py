"""A comparison of two sets as text, for a terminal and as Markdown for a pull request."""

import re
from collections.abc import Iterator, Sequence

from wdsflow.text.escape import escape
from wdsflow.text.words import how_many, size

from .set_diff import SIDES, Example, ScoreDiff, SetDiff

_CAPTION, _NAME = 400, 200  # characters that are shown


def text_lines(found: SetDiff) -> Iterator[str]:
    """Yield the report for a terminal."""
    for name, side in zip(SIDES, found.sides, strict=True):
        yield f"{name}: {_about(found, name)}"
        for trouble in side.trouble:
            yield f"   could not be read: {escape(trouble, 500)}"
    yield ""
    yield from _sums(found)
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
    """Return in one line whether the sets are the same."""
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


def _about(found: SetDiff, name: str) -> str:
    side = found.sides[SIDES.index(name)]
    fields = ", ".join(escape(each, 60) for each in sorted(side.fields)[:8])
    left_out = f"; {how_many(side.left_out.total(), 'member')} of no sample" if side.left_out else ""
    repeated = f"; {how_many(side.repeated, 'repeated key')}" if side.repeated else ""
    held = f"{how_many(side.samples, 'sample')}, {size(side.bytes.total())} in {fields or 'no fields'}"
    return f"{how_many(len(side.shards), 'shard')}, {held}{repeated}{left_out}"


def _sums(found: SetDiff) -> Iterator[str]:
    for name, side, only in zip(SIDES, found.sides, found.only, strict=True):
        yield (
            f"{how_many(side.samples, 'sample')} in {name} = {found.same:,} the same + {found.changed:,} changed"
            f" + {only:,} only in {name}"
        )


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
    """Return text as code that cannot end early: with more backticks around it than it has in a row.

    >>> _code("a`b"), _code("`")
    ('``a`b``', '`` ` ``')
    """
    shown = escape(text, limit) or " "
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    blank = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{fence}{blank}{shown}{blank}{fence}"
