"""An example predicate, from the values in ledgers."""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from wdsflow.filtering.folder.layout import Layout
from wdsflow.filtering.where.language.values import Unknown, spelled
from wdsflow.text.words import number_text

from .ledger import read_ledger
from .ledger_row import LedgerError, calls_of

_LONGEST = 40  # characters of a text


def example_predicate(layout: Layout, names: Sequence[str]) -> str:
    """Return a predicate over one score that keeps some samples of the first shard with values; "" if there is none."""
    for name in names:
        try:
            rows, about = read_ledger(layout.ledger(name))
        except LedgerError:
            continue
        for call, kind in calls_of(about).items():
            values = [row.values.get(call) for row in rows]
            known = [value for value in values if not isinstance(value, (list, Unknown)) and value is not None]
            if found := _condition(str(call), kind, known):
                return found
    return ""


def _condition(call: str, kind: str, values: Sequence[Any]) -> str:
    numbers = [value for value in values if kind == "number" and math.isfinite(value)]
    if numbers:
        return f"{call} >= {_floor(statistics.median_low(numbers))}"
    if kind == "boolean" and values:
        return call if all(values) else f"not {call}"
    texts = Counter(value for value in values if kind == "text" and len(value) <= _LONGEST)
    return f"{call} == {spelled(texts.most_common(1)[0][0])}" if texts else ""


def _floor(value: float) -> str:
    """Return a number of few digits that is not above a value, and near it.

    >>> _floor(153.21), _floor(0.987654321), _floor(-3.0), _floor(20480)
    ('153.2', '0.987654321', '-3', '20480')
    """
    short = float(f"{value:.4g}")
    return number_text(short if value * 0.99 <= short <= value else float(value))
