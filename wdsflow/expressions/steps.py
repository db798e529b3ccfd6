"""The order in which scores are computed, and the order of terms: cheap ones first.

After each step the expression is evaluated with the scores computed so far, and samples for
which it is true or false go no further. Terms commute, so the order affects only the work, and
which of several false terms is named.
"""

from collections.abc import Collection
from typing import NamedTuple

from .expression import Expression, Term
from .score_call import ScoreCall

TIERS = ("header", "text", "pixels", "model")
# Scores that compare samples with each other: they are computed when all samples have been read.
COMPARED = "compared"


class ScoreStep(NamedTuple):
    """Scores that are computed before the expression is evaluated again.

    They are in the order of the text.
    """

    tier: str
    scores: tuple[ScoreCall, ...]


def steps_of(expression: Expression, among_kept: Collection[ScoreCall] = ()) -> list[ScoreStep]:
    """Return the steps in which the scores of an expression are computed.

    The scores of headers are one step, and so are those of texts: they are cheap, and share what
    they read. Each score of pixels is one, and each model: it runs only for samples that the others
    leave open. Last come scores that compare samples: first those that compare all, then those of
    ``among_kept``, for which all others must be computed.
    """
    by_step: dict[tuple[int, int], list[ScoreCall]] = {}
    for position, call in enumerate(expression.scores):
        rank = _rank(expression, call)
        is_dear = rank in {TIERS.index("pixels"), TIERS.index("model")}
        within = position if is_dear else int(call in among_kept)
        by_step.setdefault((rank, within), []).append(call)
    tiers = (*TIERS, COMPARED)
    return [ScoreStep(tiers[rank], tuple(calls)) for (rank, _), calls in sorted(by_step.items())]


def terms_by_cost(expression: Expression) -> tuple[Term, ...]:
    """Return the terms in the order in which a false one is named.

    They are sorted by their most expensive score, equals as in the text.
    """
    return tuple(
        sorted(
            expression.terms,
            key=lambda term: max((_rank(expression, call) for call in term.scores), default=0),
        )
    )


def _rank(expression: Expression, call: ScoreCall) -> int:
    score = expression.facts[call.name]
    if score.compares_samples:
        return len(TIERS)
    # The tier of a custom score may be one that this version
    # does not know: it counts as the most expensive.
    return TIERS.index(score.tier) if score.tier in TIERS else len(TIERS) - 1
