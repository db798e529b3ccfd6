"""The values of a score in a ledger, for ``wdsflow scores --ledger``: quantiles, a histogram, and what thresholds keep."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.cli.shared.typed import Typed, free
from wdsflow.shards.shard import Shard
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many, number_text

if TYPE_CHECKING:
    from wdsflow.filtering.deciding.ledger_scores import LedgerScores
    from wdsflow.filtering.deciding.score_column import ScoreColumn

# Lines of a histogram, characters of its longest bar.
_BINS, _BAR = 12, 40
# Values that are shown of a truth value or text.
_TOP = 10
_QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_SHARES = (0.3, 0.5, 0.7)


def score_lines(
    scores: "LedgerScores", column: "ScoreColumn", ledger: Path, taken: set[str]
) -> Iterator[str]:
    """Yield the lines about one score. ``taken`` are names of output folders that were already printed."""
    without = [f"{column.missing:,} not computed"] if column.missing else []
    without += [f"{count:,} {escape(error)}" for error, count in column.failed.most_common()]
    without += (
        [f"{column.unreadable:,} unreadable or dropped by a stage"] if column.unreadable else []
    )
    yield f"{escape(str(column.call), 1_000)}: {how_many(column.samples, 'sample')}, {column.computed:,} with a value"
    if without:
        yield f"  without: {', '.join(without)}"
    if column.several:
        how = (
            f"; the {'largest' if column.small else 'smallest'} counts"
            if column.kind == "number"
            else ""
        )
        yield f"  {how_many(column.several, 'sample')} with several values{how}"
    if column.kind != "number":
        yield from _counts(column)
    elif column.numbers is not None and len(column.numbers):
        yield from _distribution(column)
        yield from _thresholds(scores, column, ledger, taken)


def _counts(column: "ScoreColumn") -> Iterator[str]:
    if column.counts is None:
        yield "  more than 10,000 different values"
        return
    width = max((len(f"{count:,}") for count in column.counts.values()), default=0)
    for value, count in sorted(column.counts.items(), key=lambda item: (-item[1], str(item[0])))[
        :_TOP
    ]:
        shown = str(value).lower() if isinstance(value, bool) else escape(str(value))
        yield f"  {count:>{width},}  {shown}  ({count / column.counts.total():.1%})"
    if len(column.counts) > _TOP:
        yield f"  and {how_many(len(column.counts) - _TOP, 'other value')}"


def _distribution(column: "ScoreColumn") -> Iterator[str]:
    assert column.numbers is not None
    ends = (("min", column.numbers[0]), ("max", column.numbers[-1]))
    middle = [(f"{share:.0%}", column.quantile(share)) for share in _QUANTILES]
    yield "  " + "  ".join(f"{name} {value:.4g}" for name, value in (ends[0], *middle, ends[1]))
    yield from _histogram(column)


def _histogram(column: "ScoreColumn") -> Iterator[str]:
    """Yield a line for each value if they are few, otherwise for each of 12 ranges; the outer ones are unbounded."""
    import numpy as np

    values = column.numbers
    assert values is not None
    firsts = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
    low, high = column.quantile(0.01), column.quantile(0.99)
    if len(firsts) <= _BINS:
        counts = np.diff(firsts, append=len(values))
        labels = [f"{value:.6g}" for value in values[firsts]]
    elif np.isfinite(low) and np.isfinite(high) and low < high:
        counts, edges = np.histogram(np.clip(values, low, high), _BINS, (low, high))
        ends = [f"{edge:.4g}" for edge in edges]
        wide = max(map(len, ends))
        labels = [f"{start:>{wide}} .. {end:<{wide}}" for start, end in itertools.pairwise(ends)]
        if values[0] < low:
            labels[0] = f"{'<':>{wide + 3}} {ends[1]:<{wide}}"
        if values[-1] > high:
            labels[-1] = f"{'>=':>{wide + 3}} {ends[-2]:<{wide}}"
    else:
        return
    wide, most = max(map(len, labels)), int(max(counts))
    for label, count in zip(labels, counts.tolist(), strict=True):
        bar = "#" * (-(-count * _BAR // most))
        yield f"  {label:>{wide}} {bar}{' ' * bool(bar)}{count:,}"


def _thresholds(
    scores: "LedgerScores", column: "ScoreColumn", ledger: Path, taken: set[str]
) -> Iterator[str]:
    urls = [Shard.stored(record.url) for record in scores.records]
    if column.where is None:
        recipe, out = ledger / ".wdsflow" / "run.json", free(Path(f"{ledger}-all"))
        again = Typed.spell("measure", *urls, out=out, scores=column.call, recipe=recipe)
        yield "  what a threshold keeps is not known: the run did not compute the score for all samples"
        yield f"  to compute it: {again}{_pipe(urls)}"
        return
    if column.where:
        yield f"  not computed for all samples; known with: {escape(column.where, 2_000)}"
    for number in column.round_thresholds():
        yield f"  {column.comparison} {number_text(number)} keeps {_share(column.kept(number), column.samples)}"
    found = [(column.threshold_for(share), share) for share in _SHARES]
    if all(least is None for least, _ in found):
        yield "  no number divides these values" if column.computed > 1 else "  a single value"
    for least in dict.fromkeys(least for least, _ in found if least is not None):
        shares = [f"{share:.0%}" for other, share in found if other == least]
        name = f"{column.call.name}-{shares[0]}".rstrip("%")
        names = (name if number == 1 else f"{name}-{number}" for number in itertools.count(1))
        out = next(path for path in map(free, map(Path, names)) if path.name not in taken)
        taken.add(out.name)
        command = Typed.spell(
            "filter", *urls, ledger=ledger, where=column.predicate(least), out=out
        )
        equals = next(
            (some for other, share in found if other == least and (some := column.equals(share))),
            None,
        )
        why = (
            f" (no number comes nearer: {equals[1]:,} samples have the value {equals[0]:.6g})"
            if equals
            else ""
        )
        yield f"  to keep {' or '.join(shares)}, precisely {_share(column.kept(least), column.samples)}{why}:"
        yield f"  {command}{_pipe(urls)}"
    away = next(
        (url for url in urls if url.path is not None and not os.path.exists(url.path)), None
    )
    if away is not None:
        yield f"  {escape(away)} is not here: run these commands in the folder in which the shards were scored"


def _share(count: int, whole: int) -> str:
    return f"{count / whole:.1%} ({count:,} of {whole:,})"


def _pipe(urls: list[Shard]) -> str:
    return " --allow-pipe" if any(url.is_pipe for url in urls) else ""
