"""Which rank this process is, and how many decoding threads it may have."""

import os
from argparse import Namespace
from typing import NamedTuple


class Place(NamedTuple):
    """A rank among all."""

    rank: int
    world_size: int


def place(args: Namespace | None = None) -> Place:
    """Return this process's rank, found where webdataset looks for it, else by OpenCLIP's arguments.

    First RANK and WORLD_SIZE of the environment, then torch.distributed. OpenCLIP's own loader stops there and gives
    every rank all shards under Horovod; its arguments know better.
    """
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return Place(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    if talks():
        import torch.distributed

        return Place(torch.distributed.get_rank(), torch.distributed.get_world_size())
    return Place(int(getattr(args, "rank", 0) or 0), int(getattr(args, "world_size", 1) or 1))


def talks() -> bool:
    """Tell whether torch.distributed connects this process with others."""
    import torch.distributed

    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def threads_for(asked: int | None) -> int:
    """Return how many threads decode: as asked, else this rank's share of the processors that it may use."""
    if asked is not None:
        return asked
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        count = os.cpu_count() or 1
    return max(1, count // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))
