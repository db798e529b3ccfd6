"""Differences between two sets of shards: samples, fields, captions, scores."""

from typing import TYPE_CHECKING

from wdsflow.lazy import lazy_names

__all__ = ["SetDiff", "diff_shards"]

if TYPE_CHECKING:
    from .run_diff import diff_shards
    from .set_diff import SetDiff
else:
    __getattr__ = lazy_names(__name__, {"SetDiff": "set_diff", "diff_shards": "run_diff"})
