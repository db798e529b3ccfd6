"""Tables of samples for the evaluator."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tests.expressions.drawing import COLUMNS
from tests.expressions.reference import Sample, Value, plain
from wdsflow.expressions.evaluator import Columns
from wdsflow.expressions.score_call import ScoreCall


def window(columns: Any) -> Columns:
    """Return columns, given as pyarrow's ``table`` takes them, as the evaluator takes them."""
    table = pa.table(columns)
    return Columns(table.schema.names, table)


TYPES = {"number": pa.float64(), "boolean": pa.bool_(), "text": pa.string()}


def call_of(name: str) -> ScoreCall:
    """Return the score that a name of ``drawing`` means."""
    from tests.expressions.catalog import CATALOG
    from wdsflow.expressions.parsing import parse_score

    return parse_score(name, CATALOG)


CALLS = {name: call_of(name) for name in COLUMNS}


def table_of(
    samples: Sequence[Sample],
    names: Collection[str],
    lists: Collection[str],
    *,
    clean: bool = False,
) -> Any:
    """Return a table with some columns.

    ``lists`` are columns of lists; the others have the only item of each sample.
    """
    columns: Mapping[str, list[Any]] = {
        name: [sample[name] for sample in samples] for name in names
    }
    arrays = []
    for name, values in columns.items():
        items: list[Any] = [[plain(item) if clean else item for item in value] for value in values]
        kind = TYPES[COLUMNS[name]]
        if name in lists:
            arrays.append(pa.array(items, pa.list_(kind)))
        else:
            arrays.append(pa.array([item for (item,) in items], kind))
    names = [str(CALLS[name]) for name in columns]
    return Columns(names, pa.table(arrays, names=names))


def lists_of(samples: Sequence[Mapping[str, list[Value]]]) -> list[str]:
    """Return the columns in which a sample has several items."""
    return [name for name in COLUMNS if any(len(sample[name]) > 1 for sample in samples)]
