"""What an expression says of samples, by their values: the rows of a ledger become a table for DuckDB."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from wdsflow.expressions.evaluator import Decisions, Evaluator, smallest_numbers
from wdsflow.expressions.expression import Expression
from wdsflow.expressions.score_call import Constant, ScoreCall
from wdsflow.filtering.ledger.ledger import column
from wdsflow.filtering.ledger.ledger_row import Row
from wdsflow.filtering.predicates.values import Unknown, Value

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

NO_RESULT = "no-result"
_NO_VALUE = Unknown("null")
_NOT_FINITE = Unknown("not-finite")


class RowTable(NamedTuple):
    """The values of some samples. ``lists``: the scores of which some sample has several values."""

    table: "pa.Table"
    lists: list[ScoreCall]


def table_of(rows: Sequence[Row], kinds: Mapping[ScoreCall, str]) -> RowTable:
    """Return the values of rows: a column for each score, in which a missing value is NULL."""
    import pyarrow as pa

    # A table without columns would have no rows.
    arrays = [pa.array([row.number for row in rows], pa.int64())]
    names = [""]
    lists = []
    for call, kind in kinds.items():
        values = [row.values.get(call) for row in rows]
        types = set(map(type, values))
        names.append(str(call))
        if list in types:
            lists.append(call)
            arrays.append(_list_column(values, kind))
            continue
        if Unknown in types:
            values = [None if isinstance(value, Unknown) else value for value in values]
        arrays.append(column(values, kind))
    return RowTable(pa.Table.from_arrays(arrays, names=names), lists)


def _list_column(values: Sequence[Value | Unknown], kind: str) -> "pa.Array":
    """Return a column with a list in each row."""
    import pyarrow as pa

    items: list[Constant | None] = []
    ends = [0]
    for value in values:
        if isinstance(value, list):
            items += value
        else:
            items.append(None if isinstance(value, Unknown) else value)
        ends.append(len(items))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), column(items, kind))


def evaluate(
    evaluator: Evaluator, rows: Sequence[Row], computed: Collection[ScoreCall], lacks: Collection[ScoreCall] = ()
) -> Decisions:
    """Return what an expression says of rows when the scores ``computed`` are known for all that need them."""
    found = table_of(rows, {call: kind for call, kind in evaluator.expression.kinds.items() if call in computed})
    return evaluator.evaluate(found.table, computed, found.lists, lacks)


def results(evaluator: Evaluator, rows: Sequence[Row]) -> list[bool | Unknown | None]:
    """Return for each row whether an expression holds, why that is unknown, or None while scores are not computed.

    What is computed may differ from row to row, as in the ledger of a filter.
    """
    groups: dict[frozenset[ScoreCall], list[int]] = {}
    calls = evaluator.expression.scores
    for place, row in enumerate(rows):
        groups.setdefault(frozenset(call for call in calls if call in row.values), []).append(place)
    answers: list[bool | Unknown | None] = [None] * len(rows)
    for computed, places in groups.items():
        members = [rows[place] for place in places]
        decisions = evaluate(evaluator, members, computed, calls)
        for number, place in enumerate(places):
            answers[place] = _result(evaluator, decisions, number, members[number])
    return answers


def _result(evaluator: Evaluator, decisions: Decisions, number: int, row: Row) -> bool | Unknown | None:
    if not decisions.unknown[number]:
        return bool(decisions.keep[number])
    if any(decisions.lacks[call][number] and call not in row.values for call in evaluator.expression.scores):
        return None
    return reason(evaluator, decisions, number, row)


def reason(evaluator: Evaluator, decisions: Decisions, number: int, row: Row) -> Unknown:
    """Return why the result of an expression is unknown: the first value that is missing in its first unknown term."""
    term = evaluator.terms[decisions.term[number]]
    for call in term.scores:
        if decisions.lacks[call][number]:
            return missing_value(row.values.get(call))
    return Unknown(NO_RESULT, f"{term} has no result, as of a division by zero")


def missing_value(value: Value | Unknown) -> Unknown:
    """Return why a value counts as missing."""
    if isinstance(value, Unknown):
        return value
    items = value if isinstance(value, list) else [value]
    return _NO_VALUE if None in items or not items else _NOT_FINITE


def numbers(
    expression: Expression, rows: Sequence[Row], *, largest: bool = False
) -> "tuple[NDArray[np.float64], NDArray[np.bool_]]":
    """Return the number that an expression is for each row, and where it is missing. Of several items, the smallest."""
    found = table_of(rows, expression.kinds)
    return smallest_numbers(expression, found.table, found.lists, largest=largest)
