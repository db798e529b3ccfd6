"""Predicates as users write them, with the names that they may contain.

These are the scores of the catalog, and the facts of a sample.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from wdsflow.expressions import parsing, shares
from wdsflow.expressions.errors import ExpressionError
from wdsflow.expressions.expression import Expression
from wdsflow.expressions.score_call import ScoreCall, ScoreType
from wdsflow.stages.scores.base import Score
from wdsflow.stages.scores.reference_lists import read_list

from .sample_facts import FACTS, RankPercent

# By the kind of a list of images: the score that compares an image with it, and the distance up to
# which the two count as duplicates.
_NEAR = {"phash": ("phash_distance", 4), "embeddings": ("embedding_distance", 0.07)}
_NO_SCORE = "scores: {!r} is not the name of a score; conditions belong in --where, and all scores are listed by: wdsflow scores"


def parse(text: str, scores: Mapping[str, ScoreType]) -> Expression:
    """Return the predicate that a text means.

    Raises ExpressionError, with the position and what to write instead.

    ``scores`` are classes or objects with a name, a kind and a tier. ``caption``, ``key`` and
    ``has("json")`` may be named as well.
    """
    return parsing.parse(text, {**FACTS, **scores})


def parse_score(text: str, names: Mapping[str, ScoreType]) -> ScoreCall:
    """Return the score that a text names, with its settings.

    Such as ``near_duplicate(distance=4)``.

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
    """Return the predicate for a share, such as ``clip_similarity top 30%``.

    A share may be one of the kept samples: ``blur bottom 10% of kept``.

    Raises ValueError.
    """
    return shares.share_predicate(text, {**FACTS, **names})


def far_predicate(path: str, names: Mapping[str, type[Score]]) -> str:
    """Return the predicate for images that are not near those of a list.

    See ``reference_lists``. Raises ValueError.
    """
    # Unused: the callers pass it to each function that makes a predicate.
    del names
    reference = read_list("--near", path)
    name, distance = _NEAR[reference.kind]
    settings = {**reference.metadata.get("settings", {}), "file": path}
    call = ScoreCall(name, tuple(sorted(settings.items())))
    return f"{call} > {distance}"
