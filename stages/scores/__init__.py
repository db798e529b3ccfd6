"""Scores: a named value for each sample. ``base`` defines scores, ``sample_view`` their input."""

from typing import TYPE_CHECKING

from wdsflow.lazy import lazy_names

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

if TYPE_CHECKING:
    from .base import TIERS, DatasetScore, Kind, Score, ScoreError, Tier, Value
    from .model.batch_score import BatchScore
    from .sample_fields import Fields, Held
    from .sample_view import View, ViewOptions
    from .score_catalog import SCORES, all_scores, make_score
else:
    # The catalog imports all scores, which single modules of this package do not need.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            **dict.fromkeys(
                ("TIERS", "DatasetScore", "Kind", "Score", "ScoreError", "Tier", "Value"), "base"
            ),
            **dict.fromkeys(("Fields", "Held"), "sample_fields"),
            "BatchScore": "model.batch_score",
            **dict.fromkeys(("View", "ViewOptions"), "sample_view"),
            **dict.fromkeys(("SCORES", "all_scores", "make_score"), "score_catalog"),
        },
    )
