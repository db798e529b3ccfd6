"""Runs open_clip_train.main in this process with another feed in place of its own."""

import importlib
import importlib.util
import multiprocessing
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from wdsflow.training.feed_options import FeedOptions, NoOpenClip

if TYPE_CHECKING:
    from .resume import GetData


def parse(argv: Sequence[str]) -> Any:
    """Return open_clip_train's parsed arguments; its parser explains wrong ones and exits with status 2.

    Raises:
        NoOpenClip: it is not installed.
    """
    if importlib.util.find_spec("open_clip_train") is None:
        raise NoOpenClip
    from open_clip_train.params import parse_args  # imports argparse and ast only

    return parse_args(list(argv))


def launch(
    argv: Sequence[str],
    options: FeedOptions | None = None,
    *,
    checkpoint_every: int | None = None,
    get_data: "GetData | None" = None,
    refused: bool = False,
) -> int:
    """Train as ``open_clip_train.main`` does with these arguments, fed by wdsflow; return an exit status.

    Args:
        argv: open_clip_train's arguments.
        options: settings of the feed.
        checkpoint_every: optimizer steps between checkpoints inside of epochs; None for none.
        get_data: another function in place of OpenCLIP's ``get_data`` than that of wdsflow.
        refused: this is the first of several ranks, and all of them shall end before they train.

    Raises:
        Refused: so they do.
        NoOpenClip: OpenCLIP is not installed.
        ResumeError: the run cannot continue from the checkpoint that it was given.
        FeedError: there is no feed for these arguments.
        StallError: training would hang.
    """
    parse(argv)
    try:
        main = importlib.import_module("open_clip_train.main")
    except ModuleNotFoundError as error:
        raise NoOpenClip(error.name or "a module") from error
    from .launchers import shared
    from .resume import ResumedRun

    run = ResumedRun(main, get_data or _feed(options or FeedOptions()), checkpoint_every)
    try:
        with run.installed(), shared(main, refused):
            result = main.main(list(argv))
    except Exception as error:
        told = run.explain(error)
        if told is None:
            raise
        raise told from error
    finally:
        run.close()
        for child in multiprocessing.active_children():  # such as OpenCLIP's own for --remote-sync
            child.terminate()
    return 1 if result == -1 else 0  # main says -1 behind "Error. ..."


def _feed(options: FeedOptions) -> "GetData":
    from wdsflow.training.openclip import get_data

    return partial(get_data, options=options)
