"""Predicates on ledgers: a score that a predicate names without settings is the one that has a column."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from wdsflow.expressions.errors import ExpressionError
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.expressions.tree import Literal, Node, Operation, ScoreValue, calls_of, printed
from wdsflow.stages.scores.base import DatasetScore, Score
from wdsflow.stages.scores.score_catalog import all_scores, make_score

from .catalog import parse, ranked_number
from .sample_facts import RankPercent


def with_columns(where: str, columns: Collection[ScoreCall]) -> str:
    """Return a predicate in which names of scores without settings are those of columns; a score that has a column stays.

    >>> with_columns("blur > 10", [ScoreCall("blur", (("decode", "exact"),))])
    'blur(decode="exact") > 10'

    Raises ExpressionError if several columns have the name.
    """
    if not where.strip():
        return where
    expression = parse(where, all_scores())
    nodes = tuple(term.node for term in expression.terms)
    tree = Operation("and", nodes) if len(nodes) > 1 else nodes[0]
    column_of = {call: _column(call, columns, where) for call in calls_of(tree)}
    if all(call == column for call, column in column_of.items()):
        # The text of the user stays as it is.
        return where
    return printed(_renamed(tree, column_of))


def gathers_like(call: ScoreCall, other: ScoreCall) -> bool:
    """Return whether samples can be compared by a score with the data that was gathered for another one."""
    if call.name != other.name:
        return False
    if not issubclass(all_scores().get(call.name, Score), DatasetScore):
        return False
    score = make_score(call.name, **dict(call.settings))
    other_score = make_score(other.name, **dict(other.settings))
    assert isinstance(score, DatasetScore)
    assert isinstance(other_score, DatasetScore)
    return score.gathers() == other_score.gathers()


def _column(call: ScoreCall, columns: Collection[ScoreCall], where: str) -> ScoreCall:
    """Return the column that a score names. Raises ExpressionError if it names several."""
    if call.name == RankPercent.name:
        return _ranked_column(call, columns, where)
    if call in columns or call.settings:
        return call
    if any(gathers_like(call, column) for column in columns):
        # It is computed from the data of that column.
        return call
    matches = [column for column in columns if column.name == call.name]
    if not matches:
        return call
    if len(matches) > 1:
        raise _ambiguous(call.name, matches, where)
    return matches[0]


def _ambiguous(name: str, columns: Collection[ScoreCall], where: str) -> ExpressionError:
    """Return the error for the name of a score that has several columns."""
    detail = f"the ledgers have {len(columns)} columns of the name {name}"
    listed = ", ".join(sorted(map(str, columns)))
    start = max(where.find(name), 0)
    end = start + len(name)
    return ExpressionError(where, start, end, detail, f"name one of them: {listed}")


def _ranked_column(call: ScoreCall, columns: Collection[ScoreCall], where: str) -> ScoreCall:
    """Return a rank by a number in which names of scores are those of columns. Raises ExpressionError."""
    settings = dict(call.settings)
    rank = RankPercent(**settings)  # type: ignore[arg-type]
    number = ranked_number(rank, all_scores())
    column_of = {ranked: _column(ranked, columns, where) for ranked in number.calls}
    tree = number.expression.terms[0].node
    settings["of"] = printed(_renamed(tree, column_of))
    return call._replace(settings=tuple(settings.items()))


def _renamed(node: Node, column_of: Mapping[ScoreCall, ScoreCall]) -> Node:
    """Return a tree with columns in place of scores."""
    if isinstance(node, ScoreValue):
        return replace(node, call=column_of[node.call])
    if isinstance(node, Literal):
        return node
    return replace(node, items=tuple(_renamed(item, column_of) for item in node.items))
