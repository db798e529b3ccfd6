"""Runs open_clip_train.main in this process with another feed."""

import importlib
import importlib.util
import logging
import multiprocessing
import os
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from wdsflow.shards.cache.shard_cache import shared_cache
from wdsflow.shards.source.base import local_folder
from wdsflow.training.feed_options import FeedOptions, NoOpenClip
from wdsflow.training.ranks import connect_board, rank_and_world
from wdsflow.training.stalls.loss_tally import log_or_print
from wdsflow.training.stalls.progress_text import cache_line

from .replaced_names import replace_name

if TYPE_CHECKING:
    from .resume import GetData

# Maximum lag between connected ranks.
_PATIENCE = timedelta(minutes=2)
# Seconds for the other ranks to read the decision before the process with the store ends.
_FAREWELL = 5.0


def parse_openclip_arguments(argv: Sequence[str]) -> Any:
    """Return open_clip_train's parsed arguments.

    Its parser reports errors and exits with 2. Raises NoOpenClip.
    """
    if importlib.util.find_spec("open_clip_train") is None:
        raise NoOpenClip
    # Imports argparse and ast only.
    from open_clip_train.params import parse_args

    return parse_args(list(argv))


def launch(
    argv: Sequence[str],
    options: FeedOptions | None = None,
    *,
    checkpoint_every: int | None = None,
    get_data: "GetData | None" = None,
    refused: bool = False,
    headspace: bool = False,
) -> int:
    """Train as ``open_clip_train.main`` does, fed by wdsflow; return an exit status.

    Args:
        argv: open_clip_train's arguments.
        options: settings of the feed.
        checkpoint_every: optimizer steps between checkpoints within epochs; None for none.
        get_data: replaces OpenCLIP's ``get_data``; by default wdsflow's.
        headspace: measure how much training waits for data, and stop.
        refused: this is the first of several ranks, and none of them may train.

    Raises:
        Refused: the first rank has refused to train.
        NoOpenClip: OpenCLIP is not installed.
        ResumeError: the run cannot continue from the checkpoint that it was given.
        FeedError: these arguments cannot be fed.
        StallError: training would hang.
    """
    parse_openclip_arguments(argv)
    try:
        main = importlib.import_module("open_clip_train.main")
    except ModuleNotFoundError as error:
        raise NoOpenClip(error.name or "a module") from error
    from .data_arguments import DataArguments
    from .resume import HeadspaceDone, PatchedRun

    data = DataArguments()
    feed = data.with_given_arguments(get_data or _feed(options or FeedOptions()))
    run = PatchedRun(main, feed, checkpoint_every, headspace=headspace)
    try:
        with run.installed(), data.redacted(main), share_decision(main, refused):
            result = main.main(list(argv))
        _report_cache(options or FeedOptions())
    except HeadspaceDone:
        return 0
    except Exception as error:
        other = run.explain(error)
        if other is None:
            raise
        raise other from error
    finally:
        run.close()
        # Such as OpenCLIP's own for --remote-sync.
        for child in multiprocessing.active_children():
            child.terminate()
    # main returns -1 after "Error. ..."
    return 1 if result == -1 else 0


def _feed(options: FeedOptions) -> "GetData":
    from wdsflow.training.openclip import get_data

    return partial(get_data, options=options)


def _report_cache(options: FeedOptions) -> None:
    """Log what the cache did for this process in all epochs."""
    if options.cache is None or rank_and_world()[0]:
        return
    cache = shared_cache(local_folder(options.cache), options.cache_bytes or 0)
    if cache is not None:
        log_or_print(logging.INFO, f"feed: in all epochs, {cache_line(cache.figures)}")


class Refused(Exception):
    """The first rank refuses to train on these shards and has reported why."""


def launcher_ends_others() -> bool:
    """Return whether the launcher ends the other ranks when this one fails, as torchrun does."""
    return "TORCHELASTIC_RUN_ID" in os.environ


@contextmanager
def share_decision(main: ModuleType, refused: bool) -> Iterator[None]:
    """Send the first rank's decision to all ranks of ``open_clip_train.main``.

    It is sent once the ranks are connected.

    Raises Refused on each of them if it is a refusal.
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
            raise Refused(
                "" if refused else "the first rank refuses to train on these shards; it says why"
            )
        return device

    with replace_name(main, "init_distributed_device", init_distributed_device):
        yield


def _decision(refused: bool) -> bool:
    """Return the first rank's decision; ``refused`` is its own."""
    # If the store does not answer, training begins.
    with suppress(RuntimeError):
        board = connect_board()
        if board is None:
            return refused
        if board.rank:
            refused = board.wait_for_word("decision", _PATIENCE) == "refused"
        else:
            board.set_word("decision", "refused" if refused else "train")
        if refused:
            board.acknowledge()
            until = time.monotonic() + _FAREWELL
            while not board.rank and time.monotonic() < until and not board.is_read_by_all():
                time.sleep(0.05)
    return refused
