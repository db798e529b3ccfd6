"""Filter shards: scores, a predicate over them, and kept samples copied byte for byte."""

from typing import TYPE_CHECKING

from wdsflow.lazy import lazy_names

__all__ = [
    "KeepFromLedger",
    "OutputError",
    "Recipe",
    "RunOptions",
    "RunReport",
    "filter_shards",
    "measure_shards",
]

if TYPE_CHECKING:
    from .keep_from_ledger import KeepFromLedger
    from .recipe.recipe import Recipe
    from .run_filter import filter_shards, measure_shards
    from .run_options import OutputError, RunOptions
    from .run_report import RunReport
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "KeepFromLedger": "keep_from_ledger",
            "Recipe": "recipe.recipe",
            "filter_shards": "run_filter",
            "measure_shards": "run_filter",
            "OutputError": "run_options",
            "RunOptions": "run_options",
            "RunReport": "run_report",
        },
    )
