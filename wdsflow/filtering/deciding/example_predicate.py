"""A predicate that keeps some samples, as an example for messages."""

import math
import statistics
from collections import Counter
from collections.abc import Sequence

from wdsflow.expressions.score_call import Constant, spelled
from wdsflow.filtering.ledger.ledger_metadata import LedgerError, calls_of
from wdsflow.filtering.ledger.read_ledger import read_ledger
from wdsflow.filtering.predicates.values import Unknown
from wdsflow.records.run_folder import Layout
from wdsflow.text.words import number_text

# Characters of a text.
_LONGEST = 40


def example_predicate(layout: Layout, names: Sequence[str]) -> str:
    """Return a predicate over one score that keeps some samples; "" if there is none.

    It is made for the first shard with values.
    """
    for name in names:
        try:
            samples, metadata = read_ledger(layout.ledger(name))
        except LedgerError:
            continue
        for call, kind in calls_of(metadata).items():
            values = [value for value in samples.columns[call].values() if value is not None]
            single = [value for value in values if not isinstance(value, (list, Unknown))]
            condition = _condition(str(call), kind, single)
            if condition:
                return condition
    return ""


def _condition(call: str, kind: str, values: Sequence[Constant]) -> str:
    """Return a condition that holds for some of the values; "" if there are none."""
    if kind == "number":
        numbers = [value for value in values if isinstance(value, (int, float))]
        numbers = [value for value in numbers if math.isfinite(value)]
        if not numbers:
            return ""
        return f"{call} >= {_floor(statistics.median_low(numbers))}"
    if kind == "boolean":
        if not values:
            return ""
        return call if all(values) else f"not {call}"
    texts = [value for value in values if isinstance(value, str) and len(value) <= _LONGEST]
    if not texts:
        return ""
    most_frequent = Counter(texts).most_common(1)[0][0]
    return f"{call} == {spelled(most_frequent)}"


def _floor(value: float) -> str:
    """Return a number of few digits close to a value, but not above it.

    >>> _floor(153.21), _floor(0.987654321), _floor(-3.0), _floor(20480)
    ('153.2', '0.987654321', '-3', '20480')
    """
    short = float(f"{value:.4g}")
    return number_text(short if value * 0.99 <= short <= value else float(value))
