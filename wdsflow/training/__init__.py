"""Feed OpenCLIP from WebDataset shards: fast, exact, and with an error instead of a hang."""

from typing import TYPE_CHECKING

__all__ = ["FeedOptions", "StallError", "get_data", "get_wds_dataset"]

if TYPE_CHECKING:
    from .feed_options import FeedOptions
    from .openclip import get_data, get_wds_dataset
    from .stalls.stall import StallError
else:
    _MODULES = {
        "FeedOptions": "feed_options",
        "get_data": "openclip",
        "get_wds_dataset": "openclip",
        "StallError": "stalls.stall",
    }

    def __getattr__(
        name: str,
    ) -> object:  # each is imported when it is asked for: other modules of this package need less
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
