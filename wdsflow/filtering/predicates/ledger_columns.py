"""Predicates on ledgers.

A score that a predicate names without settings is the one that has a column.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from wdsflow.expressions.errors import ExpressionError
from wdsflow.expressions.expression import Expression
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.expressions.tree import Literal, Node, Operation, ScoreValue, printed
from wdsflow.stages.scores.score_catalog import all_scores

from .catalog import parse, ranked_number
from .gathered_data import gathers_same_data
from .sample_facts import RankPercent


def with_columns(where: str, columns: Collection[ScoreCall]) -> str:
    """Return a predicate in which scores without settings are those of columns.

    A score that has a column is not changed.

    >>> with_columns("blur > 10", [ScoreCall("blur", (("decode", "exact"),))])
    'blur(decode="exact") > 10'

    Raises ExpressionError if several columns have the name.
    """
    if not where.strip():
        return where
    expression = parse(where, all_scores())
    ledger = _LedgerColumns(columns, where)
    column_of = {call: ledger.column_of(call) for call in expression.scores}
    if all(call == column for call, column in column_of.items()):
        # The text of the user stays as it is.
        return where
    return printed(_renamed(_whole_tree(expression), column_of))


@dataclass(frozen=True)
class _LedgerColumns:
    """The columns of ledgers. ``where`` is the predicate that names them, for errors."""

    columns: Collection[ScoreCall]
    where: str

    def column_of(self, call: ScoreCall) -> ScoreCall:
        """Return the column that a score names, or the score itself if it has none.

        Raises ExpressionError if it has several.
        """
        if call.name == RankPercent.name:
            return self._ranked_by_columns(call)
        if call.settings or call in self.columns:
            return call
        if any(gathers_same_data(call, column) for column in self.columns):
            # It is computed from the data that was gathered for that column.
            return call
        of_name = [column for column in self.columns if column.name == call.name]
        if len(of_name) > 1:
            raise self._several_columns(call.name, of_name)
        return of_name[0] if of_name else call

    def _ranked_by_columns(self, call: ScoreCall) -> ScoreCall:
        """Return a rank by a number in which names of scores are those of columns."""
        settings = dict(call.settings)
        rank = RankPercent(**settings)  # type: ignore[arg-type]
        number = ranked_number(rank, all_scores())
        column_of = {ranked: self.column_of(ranked) for ranked in number.calls}
        settings["of"] = printed(_renamed(_whole_tree(number.expression), column_of))
        return call._replace(settings=tuple(settings.items()))

    def _several_columns(self, name: str, of_name: Sequence[ScoreCall]) -> ExpressionError:
        """Return the error for the name of a score that has several columns."""
        detail = f"the ledgers have {len(of_name)} columns of the name {name}"
        listed = ", ".join(sorted(map(str, of_name)))
        # In a rank, the name is a part of a text: it is not where a score would be.
        start = max(self.where.find(name), 0)
        end = start + len(name)
        return ExpressionError(self.where, start, end, detail, f"name one of them: {listed}")


def _whole_tree(expression: Expression) -> Node:
    """Return an expression as one tree, in place of a tree for each term."""
    nodes = tuple(term.node for term in expression.terms)
    return Operation("and", nodes) if len(nodes) > 1 else nodes[0]


def _renamed(node: Node, column_of: Mapping[ScoreCall, ScoreCall]) -> Node:
    """Return a tree with columns in place of scores."""
    if isinstance(node, ScoreValue):
        return replace(node, call=column_of[node.call])
    if isinstance(node, Literal):
        return node
    items = tuple(_renamed(item, column_of) for item in node.items)
    return replace(node, items=items)
