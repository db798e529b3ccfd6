"""Rewrites predicates: ranks to the numbers that they rank, bare names of scores to columns of ledgers."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from wdsflow.stages.scores.base import DatasetScore, Score
from wdsflow.stages.scores.score_catalog import all_scores, make_score

from .evaluate_predicate import runner
from .known_facts import FACTS, RankPercent
from .predicate import parse, tested_for_null
from .tokens import WhereError
from .tree import Literal, NameRef, Node, Op, calls_of, printed
from .values import PENDING, Call, Unknown

_SHARE = re.compile(r"(.+?)\s+(top|bottom)\s+(\d+\.?\d*|\.\d+)\s*%(\s+of\s+kept)?", re.DOTALL)


@dataclass(frozen=True)
class RankedNumber:
    """The number of a ``rank_percent``. ``calls`` are the scores from which it is computed."""

    score: RankPercent
    node: Node

    @property
    def calls(self) -> tuple[Call, ...]:
        """The scores of the number, each once."""
        return tuple(dict.fromkeys(calls_of(self.node)))

    def record(self, values: Mapping[Call, object], key: str) -> bytes | Unknown | None:
        """Return the bytes by which a sample is ranked, why there are none, or None while a score is missing."""
        found = runner(Op("min" if self.score.end == "top" else "max", (self.node,), "number"))(values)
        if found is PENDING or isinstance(found, Unknown):
            return None if found is PENDING else found
        assert isinstance(found, (int, float))
        try:
            return self.score.record(float(found), key)
        except OverflowError:
            return Unknown("overflow")


def ranked_number(score: RankPercent, names: Mapping[str, type[Score]]) -> RankedNumber:
    """Return the number by which a score ranks. Raises ValueError if ``of`` is not one."""
    try:
        terms = parse(f"({score.of}) is null", names).terms
    except WhereError as error:
        hint = f"; {error.hint}" if error.hint else ""
        raise ValueError(f"cannot rank by {score.of!r}: {error.detail}{hint}") from None
    node = tested_for_null(terms)
    if node is None or node.kind != "number" or not [*calls_of(node)]:
        raise ValueError(f"cannot rank by {score.of!r}: it is not a number of a sample, such as clip_similarity")
    known = {**FACTS, **names}
    compares = next((call for call in calls_of(node) if issubclass(known[call.name], DatasetScore)), None)
    if compares is not None:
        raise ValueError(f"cannot rank by {compares}: it compares samples itself")
    return RankedNumber(score, node)


def share_predicate(text: str, names: Mapping[str, type[Score]]) -> str:
    """Return the predicate for a share, such as ``clip_similarity top 30%`` or ``blur bottom 10% of kept``.

    Raises ValueError.
    """
    found = _SHARE.fullmatch(text.strip())
    if found is None or not 0 < float(found[3]) <= 100:
        raise ValueError(
            f'--keep {text!r} is not a share: write it as "clip_similarity top 30%" or "caption_words bottom 10% of kept"'
        )
    settings: dict[str, Any] = {"end": "bottom"} if found[2] == "bottom" else {}
    settings |= {"among": "kept"} if found[4] else {}
    number = ranked_number(RankPercent(of=found[1], **settings), names)
    call = Call(RankPercent.name, tuple(sorted({**settings, "of": printed(number.node)}.items())))
    return f"{call} <= {found[3]}"


def with_columns(where: str, there: Collection[Call]) -> str:
    """Return a predicate in which bare names of scores are those of columns; a score that has a column keeps its name.

    >>> with_columns("blur > 10", [Call("blur", (("decode", "exact"),))])
    'blur(decode="exact") > 10'

    Raises WhereError if several columns have the name.
    """
    if not where.strip():
        return where
    terms = parse(where, all_scores()).terms
    node = Op("and", tuple(term.node for term in terms)) if len(terms) > 1 else terms[0].node
    names = {call: _column(call, there, where) for call in calls_of(node)}
    return where if all(old == new for old, new in names.items()) else printed(_renamed(node, names))


def _column(call: Call, there: Collection[Call], where: str) -> Call:
    if call.name == RankPercent.name:
        number = ranked_number(RankPercent(**dict(call.settings)), all_scores())  # type: ignore[arg-type]
        names = {each: _column(each, there, where) for each in number.calls}
        of = printed(_renamed(number.node, names))
        return call._replace(settings=tuple((name, of if name == "of" else value) for name, value in call.settings))
    if call in there or call.settings or any(gathers_like(call, other) for other in there):
        return call
    found = [other for other in there if other.name == call.name]
    if len(found) > 1:
        start = max(where.find(call.name), 0)
        listed = ", ".join(sorted(map(str, found)))
        detail = f"the ledgers have {len(found)} columns of the name {call.name}"
        raise WhereError(where, start, start + len(call.name), detail, f"name one of them: {listed}")
    return found[0] if found else call


def gathers_like(call: Call, other: Call) -> bool:
    """Return whether samples can be compared by a score with the data that was gathered for another one."""
    if call.name != other.name or not issubclass(all_scores().get(call.name, Score), DatasetScore):
        return False
    one, two = (make_score(each.name, **dict(each.settings)) for each in (call, other))
    return isinstance(one, DatasetScore) and isinstance(two, DatasetScore) and one.gathers() == two.gathers()


def _renamed(node: Node, names: Mapping[Call, Call]) -> Node:
    """Return a tree with other scores."""
    if isinstance(node, NameRef):
        return replace(node, call=names[node.call])
    if isinstance(node, Literal):
        return node
    return replace(node, items=tuple(_renamed(item, names) for item in node.items))
