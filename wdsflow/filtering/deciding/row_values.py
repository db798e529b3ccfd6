"""What an expression says of samples, by their values.

The columns of a window become a table for DuckDB.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from wdsflow.expressions.evaluator import Columns, Decisions, Evaluator, smallest_numbers
from wdsflow.expressions.expression import Expression
from wdsflow.expressions.score_call import Constant, ScoreCall
from wdsflow.filtering.ledger.sample_table import LedgerRow, SampleTable
from wdsflow.filtering.predicates.values import Unknown, Value
from wdsflow.table_files.parquet_columns import object_array, text_array

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NO_RESULT = "no-result"
_NO_VALUE = Unknown("null")
_NOT_FINITE = Unknown("not-finite")


class RowTable(NamedTuple):
    """The values of some samples. ``lists``: the scores of which some sample has several values."""

    table: Columns
    lists: list[ScoreCall]


def table_of(
    samples: SampleTable, rows: Sequence[LedgerRow], kinds: Mapping[ScoreCall, str]
) -> RowTable:
    """Return the values of some samples, with a column for each score.

    A missing value is NULL or NaN.
    """
    import numpy as np

    numbers = [row.number for row in rows]
    # A table without columns would have no rows.
    arrays: dict[str, NDArray[Any]] = {"number": np.array(numbers, np.int64)}
    names = [""]
    lists = []
    for call, kind in kinds.items():
        values = list(map(samples.columns[call].get, numbers))
        types = set(map(type, values))
        if list in types:
            lists.append(call)
            array = _list_array(values, kind)
        else:
            if Unknown in types:
                values = [None if isinstance(value, Unknown) else value for value in values]
            array = _ARRAYS[kind](values)
        names.append(str(call))
        arrays[f"score{len(arrays)}"] = array
    return RowTable(Columns(names, arrays), lists)


def _list_array(values: Sequence[Value | Unknown], kind: str) -> "NDArray[Any]":
    """Return an array with a list in each row."""
    lists: list[list[Constant | None]] = []
    for value in values:
        items: list[Constant | None]
        if isinstance(value, list):
            items = value
        elif isinstance(value, Unknown):
            items = [None]
        else:
            items = [value]
        # Checked, and numbers are floats.
        lists.append(_ARRAYS[kind](items).tolist())
    return object_array(lists)


def _number_array(values: Sequence[Any]) -> "NDArray[np.float64]":
    """Return numbers; NaN for None. Raises OverflowError for one that is too large."""
    import numpy as np

    return np.array(values, np.float64)


_ARRAYS: dict[str, Callable[[Sequence[Any]], "NDArray[Any]"]] = {
    "number": _number_array,
    "boolean": object_array,
    "text": text_array,
}


def evaluate(
    evaluator: Evaluator,
    samples: SampleTable,
    rows: Sequence[LedgerRow],
    computed: Collection[ScoreCall],
    missing: Collection[ScoreCall] = (),
) -> Decisions:
    """Return what an expression says of some samples.

    ``computed``: the scores that are set for all samples that need them.
    """
    kinds = evaluator.expression.kinds
    kinds = {call: kind for call, kind in kinds.items() if call in computed}
    row_table = table_of(samples, rows, kinds)
    return evaluator.evaluate(row_table.table, computed, row_table.lists, missing)


def results(
    evaluator: Evaluator, samples: SampleTable, rows: Sequence[LedgerRow]
) -> list[bool | Unknown | None]:
    """Return for each of some samples whether an expression holds.

    Unknown if it has no result, with the reason. None while scores are not computed.

    What is computed may differ from sample to sample, as in the ledger of a filter.
    """
    groups: dict[frozenset[ScoreCall], list[int]] = {}
    calls = evaluator.expression.scores
    for index, row in enumerate(rows):
        computed = frozenset(call for call in calls if row.number in samples.columns[call])
        groups.setdefault(computed, []).append(index)
    answers: list[bool | Unknown | None] = [None] * len(rows)
    for computed, indexes in groups.items():
        members = [rows[index] for index in indexes]
        decisions = evaluate(evaluator, samples, members, computed, calls)
        for number, index in enumerate(indexes):
            answers[index] = _result(evaluator, samples, decisions, number, members[number])
    return answers


def _result(
    evaluator: Evaluator, samples: SampleTable, decisions: Decisions, number: int, row: LedgerRow
) -> bool | Unknown | None:
    if not decisions.unknown[number]:
        return bool(decisions.keep[number])
    for call in evaluator.expression.scores:
        if decisions.missing[call][number] and row.number not in samples.columns[call]:
            return None
    return unknown_result_reason(evaluator, samples, decisions, number, row)


def unknown_result_reason(
    evaluator: Evaluator, samples: SampleTable, decisions: Decisions, number: int, row: LedgerRow
) -> Unknown:
    """Return why the result of an expression is unknown.

    It is the first value that is missing in its first unknown term.
    """
    term = evaluator.terms[decisions.term[number]]
    for call in term.scores:
        if decisions.missing[call][number]:
            return missing_value_reason(samples.columns[call].get(row.number))
    return no_result_reason(str(term), term.scores, samples, row)


def no_result_reason(
    text: str, calls: Sequence[ScoreCall], samples: SampleTable, row: LedgerRow
) -> Unknown:
    """Return why an expression has no result although it has all its values."""
    values = {call: samples.columns[call].get(row.number) for call in calls}
    counts = {call: len(value) for call, value in values.items() if isinstance(value, list)}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{call} has {count}" for call, count in counts.items())
        return Unknown(
            NO_RESULT, f"{text} combines scores with different numbers of values: {listed}"
        )
    return Unknown(NO_RESULT, f"{text} has no result: a division by zero, or a number too large")


def missing_value_reason(value: Value | Unknown) -> Unknown:
    """Return why a value counts as missing."""
    if isinstance(value, Unknown):
        return value
    items = value if isinstance(value, list) else [value]
    return _NO_VALUE if None in items or not items else _NOT_FINITE


def numbers(
    expression: Expression,
    samples: SampleTable,
    rows: Sequence[LedgerRow],
    *,
    largest: bool = False,
) -> "tuple[NDArray[np.float64], NDArray[np.bool_]]":
    """Return the number that an expression is for each sample, and where it is missing.

    Of several items, the smallest counts, or the ``largest``.
    """
    row_table = table_of(samples, rows, expression.kinds)
    return smallest_numbers(expression, row_table.table, row_table.lists, largest=largest)
