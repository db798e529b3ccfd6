"""Scores: one per file, a named value for each sample. ``base`` defines a score, ``sample_view`` its input."""

from .base import TIERS, DatasetScore, Kind, Score, Tier, Value
from .held_fields import Fields, Held
from .model.batch_score import BatchScore
from .sample_view import View, ViewOptions
from .score_catalog import SCORES, all_scores, make_score
from .score_errors import ScoreError

__all__ = [
    "SCORES",
    "TIERS",
    "BatchScore",
    "DatasetScore",
    "Fields",
    "Held",
    "Kind",
    "Score",
    "ScoreError",
    "Tier",
    "Value",
    "View",
    "ViewOptions",
    "all_scores",
    "make_score",
]
