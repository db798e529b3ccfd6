"""Queries over the Parquet files of ledgers, for DuckDB.

A score has a column with one value. Of a sample with several images or captions, the values are in
the column ``several``, as JSON: an object with the values by the name of the score; the column of
the score is then NULL.
"""

from collections.abc import Collection, Mapping

from .constants import Literals, literal
from .expression import Expression
from .score_call import ScoreCall
from .sql import SQL_TYPES, SqlWriter, all_terms, clean_column_sql, quoted_name
from .tree import Operation

# The column of ``with_number``: no score is called so, because it has a space.
NUMBER = '"the number"'


def ledger_query(
    expression: Expression,
    files: str,
    names: Mapping[ScoreCall, str],
    several: Collection[ScoreCall] = (),
    *,
    unknown_keeps: bool = False,
) -> str:
    """Return the query for the keys of the samples that an expression keeps, for anybody's DuckDB.

    Args:
        expression: a condition.
        files: Parquet files, such as ``scored/.wdsflow/ledger/*.parquet``.
        names: the name of each score's column.
        several: the scores with several values in some sample.
        unknown_keeps: whether samples are kept for which the condition is unknown.
    """

    def column(call: ScoreCall) -> str:
        return quoted_name(names[call])

    condition = all_terms(SqlWriter(Literals(), column, several), expression)
    if unknown_keeps:
        condition = f"coalesce({condition}, true)"
    source = literal(files)
    items = [
        f"{_items(call, expression.kinds[call], names[call])} AS {column(call)}" for call in several
    ]
    if items:
        source = f"(SELECT * REPLACE ({', '.join(items)}) FROM {source})"
    # A sample that cannot be read, or that a stage dropped, has no scores.
    return f"SELECT key FROM {source} WHERE trouble IS NULL AND ({condition})"


def with_number(
    expression: Expression, source: str, names: Mapping[ScoreCall, str], *, largest: bool = False
) -> str:
    """Return the query that adds the value of an expression to the rows of ledgers.

    The column ``NUMBER`` has the value for each sample.

    It is NULL if a value is missing.

    Args:
        expression: a number.
        source: the ledgers, in SQL.
        names: the name of each score's column.
        largest: whether of several images or captions the largest number counts, not the smallest.
    """
    (term,) = expression.terms
    # No score is called so.
    columns = {
        call: quoted_name(f"value {number}") for number, call in enumerate(expression.scores)
    }
    items = [
        f"{_items(call, expression.kinds[call], names[call])} AS {column}"
        for call, column in columns.items()
    ]
    values = [
        f"{clean_column_sql(column, expression.kinds[call], is_list=True)} AS {column}"
        for call, column in columns.items()
    ]
    # All as lists: whether a sample has several values is not known before.
    writer = SqlWriter(Literals(), columns.__getitem__, lists=[*columns])
    number = writer.term(Operation("max" if largest else "min", (term.node,), "number"))
    rows = f"SELECT *, {', '.join(items)} FROM {source}"
    return f"SELECT * EXCLUDE ({', '.join(columns.values())}), {number} AS {NUMBER} FROM (SELECT * REPLACE ({', '.join(values)}) FROM ({rows}))"


def _items(call: ScoreCall, kind: str, name: str) -> str:
    """Return the SQL of the values of a score as a list."""
    # The pointer of a name in JSON.
    pointer = "/" + str(call).replace("~", "~0").replace("/", "~1")
    values = f"json_extract(several, {literal(pointer)})::{SQL_TYPES[kind]}[]"
    return f"coalesce({values}, [{quoted_name(name)}])"
