"""The number and distribution of a score's values in a ledger.

``wdsflow scores --ledger`` prints them.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from .thresholds import threshold_lines

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wdsflow.filtering.deciding.ledger_scores import LedgerScores
    from wdsflow.filtering.deciding.score_column import ScoreColumn

# Ranges of a histogram, and characters of its longest bar.
_BINS = 12
_BAR = 40
# Values that are shown of a truth value or text.
_TOP = 10
_QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


def score_lines(
    scores: "LedgerScores", column: "ScoreColumn", ledger: Path, used_names: set[str]
) -> Iterator[str]:
    """Yield the lines about one score.

    ``used_names``: the output folders that earlier lines name.
    """
    yield f"{escape(str(column.call), 1_000)}: {how_many(column.samples, 'sample')}, {column.computed:,} with a value"
    without = _missing_values(column)
    if without:
        yield f"  without: {', '.join(without)}"
    if column.several:
        which = ""
        if column.kind == "number":
            which = f"; the {'largest' if column.keeps_small else 'smallest'} counts"
        yield f"  {how_many(column.several, 'sample')} with several values{which}"
    if column.kind != "number":
        yield from _value_counts(column)
    elif column.numbers is not None and len(column.numbers):
        yield _quantiles(column)
        yield from _histogram(column)
        yield from threshold_lines(scores, column, ledger, used_names)


def _missing_values(column: "ScoreColumn") -> list[str]:
    """Return how many samples have no value, by reason."""
    parts: list[str] = []
    if column.missing:
        parts.append(f"{column.missing:,} not computed")
    parts += [f"{count:,} {escape(error)}" for error, count in column.failed.most_common()]
    if column.unreadable:
        parts.append(f"{column.unreadable:,} unreadable or dropped by a stage")
    return parts


def _value_counts(column: "ScoreColumn") -> Iterator[str]:
    """Yield a line for each of the most common truth values or texts."""
    if column.counts is None:
        yield "  more than 10,000 different values"
        return
    total = column.counts.total()
    width = max((len(f"{count:,}") for count in column.counts.values()), default=0)
    by_count = sorted(column.counts.items(), key=lambda item: (-item[1], str(item[0])))
    for value, count in by_count[:_TOP]:
        text = str(value).lower() if isinstance(value, bool) else escape(str(value))
        yield f"  {count:>{width},}  {text}  ({count / total:.1%})"
    if len(by_count) > _TOP:
        yield f"  and {how_many(len(by_count) - _TOP, 'other value')}"


def _quantiles(column: "ScoreColumn") -> str:
    assert column.numbers is not None
    values = [("min", column.numbers[0])]
    values += [(f"{share:.0%}", column.quantile(share)) for share in _QUANTILES]
    values.append(("max", column.numbers[-1]))
    return "  " + "  ".join(f"{name} {value:.4g}" for name, value in values)


def _histogram(column: "ScoreColumn") -> Iterator[str]:
    """Yield a line for each value if they are few, otherwise for each of 12 ranges.

    The outer ranges are unbounded.
    """
    import numpy as np

    values = column.numbers
    assert values is not None
    # Where each of the different values begins.
    starts = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
    low = column.quantile(0.01)
    high = column.quantile(0.99)
    if len(starts) <= _BINS:
        labels = [f"{value:.6g}" for value in values[starts]]
        counts = np.diff(starts, append=len(values))
    elif np.isfinite(low) and np.isfinite(high) and low < high:
        counts, edges = np.histogram(np.clip(values, low, high), _BINS, (low, high))
        labels = _range_labels(edges, below=values[0] < low, above=values[-1] > high)
    else:
        return
    yield from _bars(labels, counts.tolist())


def _range_labels(edges: "NDArray[Any]", *, below: bool, above: bool) -> list[str]:
    """Return the labels of ranges.

    ``below``, ``above``: some values are outside the edges, and the outer ranges include them.
    """
    ends = [f"{edge:.4g}" for edge in edges]
    width = max(map(len, ends))
    labels = [f"{start:>{width}} .. {end:<{width}}" for start, end in itertools.pairwise(ends)]
    if below:
        labels[0] = f"{'<':>{width + 3}} {ends[1]:<{width}}"
    if above:
        labels[-1] = f"{'>=':>{width + 3}} {ends[-2]:<{width}}"
    return labels


def _bars(labels: list[str], counts: list[int]) -> Iterator[str]:
    width = max(map(len, labels))
    most = max(counts)
    for label, count in zip(labels, counts, strict=True):
        # Rounded up: a value that occurs has a bar.
        bar = "#" * -(-count * _BAR // most)
        space = " " if bar else ""
        yield f"  {label:>{width}} {bar}{space}{count:,}"
