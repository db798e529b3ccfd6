"""A refusal of the first rank ends all ranks: not every launcher ends the others when one fails. srun does not."""

import os
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import ModuleType
from typing import Any

from wdsflow.training.stalls.rank_board import connect

_PATIENCE = timedelta(minutes=2)  # that ranks may be apart when they have found each other
_FAREWELL = 5.0  # seconds in which the others read it, before the process that keeps the store ends


class Refused(Exception):
    """The first rank refuses to train on these shards; it has said why."""


def ends_others() -> bool:
    """Return whether the program that started this rank ends the others when this one fails: torchrun does."""
    return "TORCHELASTIC_RUN_ID" in os.environ


@contextmanager
def shared(main: ModuleType, refused: bool) -> Iterator[None]:
    """Let all ranks of ``open_clip_train.main`` learn what the first one decided, as soon as they are connected.

    Raises:
        Refused: in each of them, if it is so.
    """
    original = getattr(main, "init_distributed_device", None)
    if original is None:
        if refused:
            raise Refused
        yield
        return

    def init_distributed_device(args: Namespace) -> Any:
        device = original(args)
        if _decision(refused):
            raise Refused("" if refused else "the first rank refuses to train on these shards; it says why")
        return device

    vars(main)["init_distributed_device"] = init_distributed_device
    try:
        yield
    finally:
        vars(main)["init_distributed_device"] = original


def _decision(refused: bool) -> bool:
    """Return what the first rank decided; ``refused`` counts on that rank only."""
    with suppress(RuntimeError):  # a store that is gone, or does not answer, stops nobody
        board = connect()
        if board is None:
            return refused
        if board.rank:
            refused = board.ask("decision", _PATIENCE) == "refused"
        else:
            board.tell("decision", "refused" if refused else "train")
        if refused:
            board.acknowledge()
            until = time.monotonic() + _FAREWELL
            while not board.rank and time.monotonic() < until and not board.known_to_all():
                time.sleep(0.05)
    return refused
