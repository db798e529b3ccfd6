"""Scores that compare samples, and the data from which they are computed.

Scores with the same data share it.
"""

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.stages.scores.base import DatasetScore
from wdsflow.stages.scores.score_catalog import all_scores, make_score


def gathers_same_data(call: ScoreCall, other: ScoreCall) -> bool:
    """Return whether a score can use the data that was gathered for another one.

    Both compare samples.
    """
    if call.name != other.name:
        return False
    score = _dataset_score(call)
    other_score = _dataset_score(other)
    if score is None or other_score is None:
        return False
    return score.gathers() == other_score.gathers()


def _dataset_score(call: ScoreCall) -> DatasetScore | None:
    """Return the score that a call names; None if it does not compare samples."""
    score_class = all_scores().get(call.name)
    if score_class is None or not issubclass(score_class, DatasetScore):
        return None
    score = make_score(call.name, **dict(call.settings))
    assert isinstance(score, DatasetScore)
    return score
