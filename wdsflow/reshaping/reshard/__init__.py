"""Writes equal shards, shuffled, split or ordered by key.

Makes two passes over byte ranges, in bounded memory.
"""

from typing import TYPE_CHECKING

from wdsflow.lazy import lazy_names

__all__ = [
    "InterleavedMembers",
    "NothingRead",
    "RepeatedKeys",
    "ReshardReport",
    "ReshardRequest",
    "reshard_shards",
]

if TYPE_CHECKING:
    from .interleaved import InterleavedMembers
    from .repeated_keys import RepeatedKeys
    from .reshard_options import ReshardRequest
    from .reshard_report import ReshardReport
    from .run_reshard import NothingRead, reshard_shards
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "InterleavedMembers": "interleaved",
            "NothingRead": "run_reshard",
            "RepeatedKeys": "repeated_keys",
            "ReshardReport": "reshard_report",
            "ReshardRequest": "reshard_options",
            "reshard_shards": "run_reshard",
        },
    )
