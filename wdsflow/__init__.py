"""Prove that WebDataset shards will train, before you book a GPU.

Also repairs and filters them, and feeds OpenCLIP from them.

Names are imported on first use: `import wdsflow` is fast and needs neither torch nor webdataset.
"""

from typing import TYPE_CHECKING

from wdsflow.lazy import lazy_names
from wdsflow.version import __version__

__all__ = [
    "FeedOptions",
    "JoinOptions",
    "Recipe",
    "RunOptions",
    "WeightedSource",
    "__version__",
    "bounded_map",
    "check",
    "feed",
    "filter_shards",
    "get_data",
    "index_shards",
    "measure_shards",
    "pack_shards",
    "plan_repair",
    "register_gopen",
    "repair_shards",
    "trace",
]

if TYPE_CHECKING:
    from wdsflow.filtering import Recipe, RunOptions, filter_shards, measure_shards
    from wdsflow.indexing import index_shards
    from wdsflow.joining.join_options import JoinOptions
    from wdsflow.mapping import bounded_map
    from wdsflow.packing import pack_shards
    from wdsflow.readers.gopen import register_gopen
    from wdsflow.repair import repair_shards
    from wdsflow.training import FeedOptions, get_data
    from wdsflow.training.sources import WeightedSource
    from wdsflow.training.torch_feed import feed
    from wdsflow.validate import plan_repair, trace
    from wdsflow.validate.run_check import check
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            **dict.fromkeys(("check", "plan_repair", "trace"), "validate"),
            **dict.fromkeys(
                ("Recipe", "RunOptions", "filter_shards", "measure_shards"), "filtering"
            ),
            **dict.fromkeys(("FeedOptions", "get_data"), "training"),
            "JoinOptions": "joining.join_options",
            "WeightedSource": "training.sources",
            "bounded_map": "mapping",
            "feed": "training.torch_feed",
            "index_shards": "indexing",
            "pack_shards": "packing",
            "register_gopen": "readers.gopen",
            "repair_shards": "repair",
        },
    )
