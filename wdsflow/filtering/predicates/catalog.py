"""Predicates over the scores of the catalog and the facts of a sample; ranks; columns of ledgers."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from wdsflow.expressions import parsing, shares
from wdsflow.expressions.errors import ExpressionError
from wdsflow.expressions.expression import Expression
from wdsflow.expressions.score_call import ScoreCall, ScoreType
from wdsflow.expressions.tree import Literal, Node, Operation, ScoreValue, calls_of, printed
from wdsflow.stages.scores.base import DatasetScore, Score
from wdsflow.stages.scores.reference_lists import read_list
from wdsflow.stages.scores.score_catalog import all_scores, make_score

from .sample_facts import FACTS, RankPercent

# How near images of a list are when they count as duplicates, by the kind of the list.
_NEAR = {"phash": ("phash_distance", 4), "embeddings": ("embedding_distance", 0.07)}
_NO_SCORE = "scores: {!r} is not the name of a score; conditions belong in --where, and all scores are listed by: wdsflow scores"


def parse(text: str, scores: Mapping[str, ScoreType]) -> Expression:
    """Return the predicate that a text means. Raises ExpressionError, with the position and what to write instead.

    ``scores`` are classes or objects with a name, a kind and a tier. ``caption``, ``key`` and
    ``has("json")`` may be named as well.
    """
    return parsing.parse(text, {**FACTS, **scores})


def parse_score(text: str, names: Mapping[str, ScoreType]) -> ScoreCall:
    """Return the score that a text names, with its settings, such as ``near_duplicate(distance=4)``.

    Raises ValueError if it names none, or has more text.
    """
    try:
        return parsing.parse_score(text, {**FACTS, **names})
    except ExpressionError as error:
        if "is not the name of a score" in error.detail:
            raise ValueError(_NO_SCORE.format(text)) from None
        hint = f"; {error.hint}" if error.hint else ""
        raise ValueError(f"scores: {text!r}: {error.detail}{hint}") from None


@dataclass(frozen=True)
class RankedNumber:
    """The number of a ``rank_percent``."""

    score: RankPercent
    expression: Expression

    @property
    def calls(self) -> tuple[ScoreCall, ...]:
        """The scores from which it is computed, each once."""
        return self.expression.scores


def ranked_number(score: RankPercent, names: Mapping[str, type[Score]]) -> RankedNumber:
    """Return the number by which a score ranks. Raises ValueError if ``of`` is not one."""
    return RankedNumber(score, shares.ranked_number(score.of, {**FACTS, **names}))


def share_predicate(text: str, names: Mapping[str, type[Score]]) -> str:
    """Return the predicate for a share, such as ``clip_similarity top 30%`` or ``blur bottom 10% of kept``.

    Raises ValueError.
    """
    return shares.share_predicate(text, {**FACTS, **names})


def far_predicate(path: str, names: Mapping[str, type[Score]]) -> str:
    """Return the predicate for images that are not near those of a list: see ``reference_lists``. Raises ValueError."""
    # Unused: the callers pass it to each function that makes a predicate.
    del names
    reference = read_list("--near", path)
    name, nearest_kept = _NEAR[reference.kind]
    settings = {**reference.about.get("settings", {}), "file": path}
    call = ScoreCall(name, tuple(sorted(settings.items())))
    return f"{call} > {nearest_kept}"


def with_columns(where: str, columns: Collection[ScoreCall]) -> str:
    """Return a predicate in which names of scores without settings are those of columns; a score that has a column stays.

    >>> with_columns("blur > 10", [ScoreCall("blur", (("decode", "exact"),))])
    'blur(decode="exact") > 10'

    Raises ExpressionError if several columns have the name.
    """
    if not where.strip():
        return where
    terms = parse(where, all_scores()).terms
    node = Operation("and", tuple(term.node for term in terms)) if len(terms) > 1 else terms[0].node
    names = {call: _column(call, columns, where) for call in calls_of(node)}
    if all(old == new for old, new in names.items()):
        return where
    return printed(_renamed(node, names))


def _column(call: ScoreCall, columns: Collection[ScoreCall], where: str) -> ScoreCall:
    """Return the column that a score names. Raises ExpressionError if it names several."""
    if call.name == RankPercent.name:
        number = ranked_number(RankPercent(**dict(call.settings)), all_scores())  # type: ignore[arg-type]
        names = {ranked: _column(ranked, columns, where) for ranked in number.calls}
        settings = dict(call.settings)
        settings["of"] = printed(_renamed(number.expression.terms[0].node, names))
        return call._replace(settings=tuple(settings.items()))
    if call in columns or call.settings:
        return call
    if any(gathers_like(call, column) for column in columns):
        return call
    matches = [column for column in columns if column.name == call.name]
    if len(matches) > 1:
        start = max(where.find(call.name), 0)
        listed = ", ".join(sorted(map(str, matches)))
        detail = f"the ledgers have {len(matches)} columns of the name {call.name}"
        raise ExpressionError(
            where, start, start + len(call.name), detail, f"name one of them: {listed}"
        )
    return matches[0] if matches else call


def gathers_like(call: ScoreCall, other: ScoreCall) -> bool:
    """Return whether samples can be compared by a score with the data that was gathered for another one."""
    if call.name != other.name or not issubclass(all_scores().get(call.name, Score), DatasetScore):
        return False
    score = make_score(call.name, **dict(call.settings))
    other_score = make_score(other.name, **dict(other.settings))
    assert isinstance(score, DatasetScore)
    assert isinstance(other_score, DatasetScore)
    return score.gathers() == other_score.gathers()


def _renamed(node: Node, names: Mapping[ScoreCall, ScoreCall]) -> Node:
    """Return a tree with other scores."""
    if isinstance(node, ScoreValue):
        return replace(node, call=names[node.call])
    if isinstance(node, Literal):
        return node
    return replace(node, items=tuple(_renamed(item, names) for item in node.items))
