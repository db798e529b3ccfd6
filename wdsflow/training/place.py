"""Which rank this process is, and how many decoders it may have, and of which kind."""

import multiprocessing
import os
from argparse import Namespace
from typing import Literal, NamedTuple

from wdsflow.training.launchers import cores_for_rank


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


def decoders_for(asked: int | None) -> int:
    """Return how many threads or processes decode: as asked, else this rank's share of the processors that it may use."""
    return cores_for_rank() if asked is None else asked


def forks(asked: Literal["auto", "processes", "threads"]) -> bool:
    """Tell whether images are decoded in forked processes; "auto": where a DataLoader's workers would be forked.

    Raises ValueError where processes are asked for and cannot be had.
    """
    methods = multiprocessing.get_all_start_methods()  # the usual one comes first
    can = "fork" in methods and not multiprocessing.current_process().daemon
    if asked == "processes" and not can:
        raise ValueError(
            "images cannot be decoded in processes here: this system does not fork, or this is a daemonic process; "
            "decode in threads"
        )
    usual = multiprocessing.get_start_method(allow_none=True) or methods[0]  # without deciding it for the user
    return can and (asked == "processes" or (asked == "auto" and usual == "fork"))
