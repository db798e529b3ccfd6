"""Feed OpenCLIP from WebDataset shards: fast, exact, and with an error instead of a hang."""

from typing import TYPE_CHECKING

from wdsflow.lazy import lazy_names

__all__ = ["FeedOptions", "StallError", "get_data", "get_wds_dataset"]

if TYPE_CHECKING:
    from .feed_options import FeedOptions
    from .openclip import get_data, get_wds_dataset
    from .stalls.stall import StallError
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "FeedOptions": "feed_options",
            "get_data": "openclip",
            "get_wds_dataset": "openclip",
            "StallError": "stalls.stall",
        },
    )
