"""Filter shards: scores, a predicate over them, and kept samples copied byte for byte."""

from typing import TYPE_CHECKING

__all__ = ["OutputError", "Recipe", "RunOptions", "RunReport", "cut_shards", "filter_shards", "score_shards"]

if TYPE_CHECKING:
    from .recipe.recipe import Recipe
    from .run_filter import cut_shards, filter_shards, score_shards
    from .run_options import OutputError, RunOptions
    from .run_report import RunReport
else:
    _MODULES = {
        "Recipe": "recipe.recipe",
        "cut_shards": "run_filter",
        "filter_shards": "run_filter",
        "score_shards": "run_filter",
        "OutputError": "run_options",
        "RunOptions": "run_options",
        "RunReport": "run_report",
    }

    def __getattr__(
        name: str,
    ) -> object:  # each is imported when it is asked for: other modules of this package need less
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
