"""Files about shards that readers look for next to them: numbers of samples, and indexes of trainers."""

from typing import TYPE_CHECKING

from wdsflow.lazy import lazy_names

__all__ = ["IndexReport", "index_shards"]

if TYPE_CHECKING:
    from .index_report import IndexReport
    from .run_index import index_shards
else:
    __getattr__ = lazy_names(__name__, {"IndexReport": "index_report", "index_shards": "run_index"})
