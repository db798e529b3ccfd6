"""Which rank this process is, what ranks do together, and how many decoders each may have, and of which kind."""

import multiprocessing
import os
from argparse import Namespace
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, TypeVar

from wdsflow.training.launch.launchers import cores_for_rank

T = TypeVar("T")


class RankPlace(NamedTuple):
    """A rank among all."""

    rank: int
    world_size: int


def place(args: Namespace | None = None) -> RankPlace:
    """Return this process's rank, found where webdataset looks for it, else by OpenCLIP's arguments.

    First RANK and WORLD_SIZE of the environment, then torch.distributed. OpenCLIP's own loader stops there and gives
    every rank all shards under Horovod; its arguments know better.
    """
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return RankPlace(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    if talks():
        import torch.distributed

        return RankPlace(torch.distributed.get_rank(), torch.distributed.get_world_size())
    return RankPlace(int(getattr(args, "rank", 0) or 0), int(getattr(args, "world_size", 1) or 1))


def talks() -> bool:
    """Return whether torch.distributed connects this process with others."""
    import torch.distributed

    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def gathered(own: T) -> list[T]:
    """Return what each rank has, on all of them; every rank must call it at the same step."""
    if not talks():
        return [own]
    import torch.distributed

    everyone: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(everyone, own)
    return everyone


def shared_out(count: int, place: RankPlace, work: Callable[[Iterable[int]], dict[int, T]]) -> list[T]:
    """Return a result for each number below ``count``, on all ranks that are connected: each does a part of the work.

    ``work`` gets numbers, and returns their results. A rank whose ``place`` says that it is the only one does all.
    """
    if place.world_size == 1:
        parts = [work(range(count))]
    else:
        parts = gathered(work(range(place.rank, count, place.world_size) if talks() else range(count)))
    found = {number: result for part in parts for number, result in part.items()}
    return [found[number] for number in range(count)]


def decoders_for(asked: int | None) -> int:
    """Return how many threads or processes decode: as asked, else this rank's share of the processors that it may use."""
    return cores_for_rank() if asked is None else asked


def start_method(asked: Literal["auto", "processes", "threads"], *, known: bool) -> str | None:
    """Return how the processes that decode are started, None for threads.

    For one of OpenCLIP's transforms they are forked, and "auto" decides as torch's DataLoader would start its workers.
    Of any other transform nothing is known: it runs in processes always, started as usual.

    Raises ValueError if there can be none.
    """
    methods = multiprocessing.get_all_start_methods()  # the usual one comes first
    usual = multiprocessing.get_start_method(allow_none=True) or methods[0]  # without deciding it for the user
    daemon = multiprocessing.current_process().daemon
    can = not daemon and ("fork" in methods or not known)
    if not can and (asked == "processes" or not known):
        why = "this is a daemonic process" if daemon else "this system does not fork"
        hint = "decode in threads" if known else "read shards in the main process"
        raise ValueError(f"images cannot be decoded in processes here: {why}; {hint}")
    if not known:
        return usual
    return "fork" if can and (asked == "processes" or (asked == "auto" and usual == "fork")) else None
