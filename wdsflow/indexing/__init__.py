"""Index files that readers look for next to shards, such as sample counts and trainers' indexes."""

from typing import TYPE_CHECKING

from wdsflow.lazy import lazy_names

__all__ = ["IndexReport", "index_shards"]

if TYPE_CHECKING:
    from .index_report import IndexReport
    from .run_index import index_shards
else:
    __getattr__, __dir__ = lazy_names(
        __name__, {"IndexReport": "index_report", "index_shards": "run_index"}
    )
