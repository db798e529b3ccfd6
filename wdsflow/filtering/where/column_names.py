"""Bare names of scores in a predicate over ledgers: each means the only column of that name."""

from collections.abc import Collection
from dataclasses import fields, replace
from typing import Any

from wdsflow.filtering.where.language.tokens import WhereError
from wdsflow.filtering.where.language.tree import And, NameRef, Node, calls_of, printed
from wdsflow.filtering.where.language.values import Call
from wdsflow.stages.scores.base import DatasetScore, Score
from wdsflow.stages.scores.score_catalog import all_scores, make_score

from .predicate import parse
from .rank_percent import RankPercent
from .ranked_number import ranked_number


def with_columns(where: str, there: Collection[Call]) -> str:
    """Return a predicate in which bare names of scores are those of columns; a score that has a column keeps its name.

    >>> with_columns("blur > 10", [Call("blur", (("decode", "exact"),))])
    'blur(decode="exact") > 10'

    Raises WhereError if several columns have the name.
    """
    if not where.strip():
        return where
    terms = parse(where, all_scores()).terms
    node: Node = And(tuple(term.node for term in terms)) if len(terms) > 1 else terms[0].node
    names = {call: _column(call, there, where) for call in calls_of(node)}
    return where if all(old == new for old, new in names.items()) else printed(_renamed(node, names))


def _column(call: Call, there: Collection[Call], where: str) -> Call:
    if call.name == RankPercent.name:
        number = ranked_number(RankPercent(**dict(call.settings)), all_scores())  # type: ignore[arg-type]
        names = {each: _column(each, there, where) for each in number.calls}
        of = printed(_renamed(number.node, names))
        return call._replace(settings=tuple((name, of if name == "of" else value) for name, value in call.settings))
    if call in there or call.settings or any(_gathers_like(call, other) for other in there):
        return call
    found = [other for other in there if other.name == call.name]
    if len(found) > 1:
        start = max(where.find(call.name), 0)
        listed = ", ".join(sorted(map(str, found)))
        detail = f"the ledgers have {len(found)} columns of the name {call.name}"
        raise WhereError(where, start, start + len(call.name), detail, f"name one of them: {listed}")
    return found[0] if found else call


def _gathers_like(call: Call, other: Call) -> bool:
    """Return whether samples can be compared by a score with the data that was gathered for another column."""
    if call.name != other.name or not issubclass(all_scores().get(call.name, Score), DatasetScore):
        return False
    one, two = (make_score(each.name, **dict(each.settings)) for each in (call, other))
    return isinstance(one, DatasetScore) and isinstance(two, DatasetScore) and one.gathers() == two.gathers()


def _renamed(node: Any, names: dict[Call, Call]) -> Any:
    """Return a tree with other scores."""
    if isinstance(node, NameRef):
        return replace(node, call=names[node.call])
    changed: dict[str, Any] = {}
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, tuple):
            changed[field.name] = tuple(_renamed(each, names) if hasattr(each, "kind") else each for each in value)
        elif field.init and hasattr(value, "kind"):
            changed[field.name] = _renamed(value, names)
    return replace(node, **changed)
