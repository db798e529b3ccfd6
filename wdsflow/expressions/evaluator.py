"""Evaluates an expression over a window of samples.

The result says which samples are kept, which are dropped and why, and which are open.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .expression import Expression, Term
from .score_call import ScoreCall
from .session import TABLE, Session
from .sql import SqlWriter, clean_column_sql, quoted_name
from .steps import terms_by_cost
from .tree import Operation

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Columns:
    """The values of a window of samples.

    Attributes:
        names: the scores, one for each column.
        data: what DuckDB reads as a table with these columns in this order: NumPy arrays by names
            that differ in more than upper and lower case, or a table with the Arrow stream
            interface. A value that is missing is NULL or, of numbers, NaN.
    """

    names: Sequence[str]
    data: object


@dataclass(frozen=True)
class Decisions:
    """What an expression says of each row of a table.

    For each row, one of ``keep``, ``drop`` and ``unknown`` is True.

    Attributes:
        keep: all terms are true.
        drop: at least one term is false, whatever values are still missing.
        unknown: values are missing, or have no result. After the last step, they are missing for
            good.
        term: for a dropped row the index of its first false term, for an unknown one that of its
            first unknown term; -1 for a kept row. Indexes are those of the evaluator's ``terms``.
        missing: for each requested score, the unknown rows whose value is missing and may still
            decide. Before a score is computed, these are the rows to compute it for; afterwards,
            those that are unknown because it could not be computed. An unknown row without a
            missing value has no result: a division by zero, for instance.
    """

    keep: "NDArray[np.bool_]"
    drop: "NDArray[np.bool_]"
    unknown: "NDArray[np.bool_]"
    term: "NDArray[np.int64]"
    missing: "Mapping[ScoreCall, NDArray[np.bool_]]"


class Evaluator:
    """Evaluates one expression, window after window.

    It can be pickled, and used in forked processes.

    Args:
        expression: a condition.
        terms: its terms in the order in which a false one is named; by default those that need
            cheap scores first.
    """

    def __init__(self, expression: Expression, terms: Sequence[Term] | None = None) -> None:
        self.expression = expression
        self.terms = tuple(terms_by_cost(expression) if terms is None else terms)
        self._session: Session | None = None

    def __getstate__(self) -> dict[str, object]:
        """Return what goes to another process: it makes a session of its own."""
        return {**vars(self), "_session": None}

    def evaluate(
        self,
        table: Columns,
        computed: Collection[ScoreCall] | None = None,
        lists: Collection[ScoreCall] = (),
        missing: Collection[ScoreCall] = (),
    ) -> Decisions:
        """Return what the expression says of each row.

        Args:
            table: has a column for each score that is computed; others are not looked at.
            computed: the scores that are computed so far, for all rows that need them; None for
                all. The values of the others are not known yet, whether they have a column or not.
            lists: the scores whose column is a list, with one value for each image or caption of
                the sample.
            missing: the scores of ``Decisions.missing``: those of the next step, or all after the
                last one.

        Raises:
            KeyError: a score that is computed has no column.
            duckdb.Error: a column has values of another type.
        """
        if computed is None:
            computed = self.expression.scores
        layout = _Layout(tuple(table.names), frozenset(computed), frozenset(lists), tuple(missing))
        if self._session is None or self._session.process != os.getpid():
            self._session = Session()
        session = self._session
        # A feed counts shards in threads, which all use the predicate of its subset.
        with session.lock:
            if layout not in session.statements:
                session.statements[layout] = self._statement(layout, session)
            columns = session.run(session.statements[layout], table.data)
        return _decisions(columns, len(self.terms), layout.missing)

    def _statement(self, layout: "_Layout", session: "Session") -> str:
        """Return the query for tables of a layout.

        It has a column for each term, then one for each score of ``missing``.
        """
        # By position: DuckDB does not distinguish upper and
        # lower case in names, and keys in json do.
        positions = {name: f"c{number}" for number, name in enumerate(layout.names)}
        columns = {
            call: positions[str(call)] for call in self.expression.scores if call in layout.computed
        }
        writer = SqlWriter(session, columns.__getitem__, layout.lists, layout.computed)
        results = [
            f"{writer.term(term.node)} AS t{number}" for number, term in enumerate(self.terms)
        ]
        for number, call in enumerate(layout.missing):
            conditions = []
            for term in self.terms:
                condition = writer.needs_value(term.node, call)
                if condition is not None:
                    conditions.append(f"({condition})")
            results.append(f"{' OR '.join(conditions) or 'false'} AS l{number}")
        return f"SELECT {', '.join(results)} FROM {_source(self.expression, columns, positions, layout.lists)}"


def smallest_numbers(
    expression: Expression,
    table: Columns,
    lists: Collection[ScoreCall] = (),
    *,
    largest: bool = False,
) -> "tuple[NDArray[np.float64], NDArray[np.bool_]]":
    """Return the number that an expression is for each row, and where it is missing.

    Of several images or captions, the smallest or ``largest`` number counts. See
    ``Evaluator.evaluate``.
    """
    (term,) = expression.terms
    session = Session()
    positions = {name: f"c{number}" for number, name in enumerate(table.names)}
    columns = {call: positions[str(call)] for call in expression.scores}
    writer = SqlWriter(session, columns.__getitem__, lists)
    number = writer.term(Operation("max" if largest else "min", (term.node,), "number"))
    columns_of_query = session.run(
        f"SELECT {number} AS number FROM {_source(expression, columns, positions, lists)}",
        table.data,
    )
    values = columns_of_query["number"]
    return np.ma.getdata(values).astype(np.float64), np.ma.getmaskarray(values)


def _source(
    expression: Expression,
    columns: Mapping[ScoreCall, str],
    positions: Mapping[str, str],
    lists: Collection[ScoreCall],
) -> str:
    """Return the SQL of a table whose columns hold what expressions need."""
    # A table needs a column, and an expression may use none.
    values = ["NULL"]
    for call, column in columns.items():
        values.append(
            f"{clean_column_sql(column, expression.kinds[call], call in lists)} AS {column}"
        )
    table = f"{quoted_name(TABLE)} AS samples({', '.join(positions.values())})"
    return f"(SELECT {', '.join(values)} FROM {table})"


class _Layout(NamedTuple):
    """What a query depends on, besides the expression."""

    names: tuple[str, ...]
    computed: frozenset[ScoreCall]
    lists: frozenset[ScoreCall]
    missing: tuple[ScoreCall, ...]


def _decisions(
    columns: "Mapping[str, NDArray[Any]]", terms: int, scores: Sequence[ScoreCall]
) -> Decisions:
    """Return what the expression says by the columns of the query: masked where they are NULL."""
    values = [columns[f"t{number}"] for number in range(terms)]
    unknown = np.array([np.ma.getmaskarray(term_values) for term_values in values])
    true = np.array([np.ma.getdata(term_values) for term_values in values], np.bool_) & ~unknown
    drop = (~true & ~unknown).any(axis=0)
    keep = true.all(axis=0)
    open_ = ~drop & ~keep
    # The index of the first term that is false, or unknown.
    decisive = np.where(drop, ~true & ~unknown, unknown)
    term = np.where(keep, -1, decisive.argmax(axis=0))
    missing = {}
    for number, call in enumerate(scores):
        needed = columns[f"l{number}"]
        is_needed = np.ma.getdata(needed).astype(np.bool_) & ~np.ma.getmaskarray(needed)
        missing[call] = open_ & is_needed
    return Decisions(keep, drop, open_, term, missing)
