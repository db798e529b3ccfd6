"""Equal shards, shuffled, split or ordered by key: two passes over byte ranges, in bounded memory."""

from typing import TYPE_CHECKING

from wdsflow.lazy import lazy_names

__all__ = ["MembersApart", "NothingRead", "RepeatedKeys", "ReshardReport", "ReshardRequest", "reshard_shards"]

if TYPE_CHECKING:
    from .read_inputs import MembersApart
    from .reshard_options import ReshardRequest
    from .reshard_report import ReshardReport
    from .run_reshard import NothingRead, reshard_shards
    from .write_parts import RepeatedKeys
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "MembersApart": "read_inputs",
            "NothingRead": "run_reshard",
            "RepeatedKeys": "write_parts",
            "ReshardReport": "reshard_report",
            "ReshardRequest": "reshard_options",
            "reshard_shards": "run_reshard",
        },
    )
