"""Which shards a training command names, and how many samples they hold."""

import glob
import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from itertools import islice
from math import inf

from wdsflow.readers.open_clip.startup import openclip_urls, weighted_urls
from wdsflow.shards.source.base import local_file, local_path
from wdsflow.shards.source.streams import end_commands
from wdsflow.shards.urls import NoShards, absent, expand
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import FeedOptions, ShardsError
from wdsflow.training.ranks import RankPlace, shared_out
from wdsflow.training.stalls.feed_log import say
from wdsflow.training.stalls.field_fixes import argument
from wdsflow.training.stalls.loss_tally import FeedLoss, LossTally
from wdsflow.training.stalls.stall import StallError, stall_message

from .sample_catalog import Catalog

_LOOK = 0.2  # seconds between two looks at who counts
_COUNTING = "the samples of an epoch cannot be counted; a number of samples saves counting them: "
_LOOKED_AT = 100  # samples without an image or a caption whose fields are named


def shard_list(data: str | Sequence[str]) -> list[str]:
    """Return the shards of ``--train-data`` in OpenCLIP's order. Globs and folders, which it lacks, are expanded.

    Raises ShardsError if a pattern matches nothing, or cannot be expanded; warns of single shards that are missing.
    """
    try:
        urls = list(openclip_urls(data) if isinstance(data, str) else data)
    except KeyError as error:  # of the environment
        raise ShardsError(f"the environment variable {error.args[0]} is not set, which '{data}' uses") from None
    except ValueError:
        raise ShardsError(f"a brace is missing in '{data}': a range is written {{0000..0042}}") from None
    try:
        found = [each for url in urls for each in _more(url)]
        _check_there(data, found)
    except NoShards as error:
        raise ShardsError(f"{error}{error.hint and f': {error.hint}'}") from None
    return found


def _check_there(data: str | Sequence[str], urls: Sequence[str]) -> None:
    """Warn of shards on this machine that are missing. Raises NoShards if all of a pattern are."""
    gone = list(absent([path for url in urls if (path := local_file(url)) is not None]))
    if not gone:
        return
    expand(part for part in (data.split("::") if isinstance(data, str) else data) if not part.startswith("pipe:"))
    if len(gone) == len(urls):
        raise NoShards(gone[0], f"no such file: {os.path.abspath(gone[0])}")
    say(
        logging.WARNING,
        f"feed: {len(gone):,} of {how_many(len(urls), 'shard')} not there, first: {escape(gone[0], 200)}",
    )


def weighted_list(
    data: str | Sequence[str],
    factors: str | Sequence[str | float] | float | None,
    options: FeedOptions,
    *,
    resampled: bool,
) -> tuple[list[str], list[float] | None]:
    """Return shards, and a weight for each if ``train_data_upsampling_factors`` are given.

    Raises ValueError unless shards are drawn, and each source has a factor; their sum must be above 0.
    """
    if factors is None:
        return shard_list(data), None
    name, drawn = argument(options, "train_data_upsampling_factors"), argument(options, "dataset_resampled")
    if not resampled:
        set_it = f"add {drawn}" if options.argv else f"set {drawn} = True"
        raise ValueError(f"{name} is given without {drawn}: only shards that are drawn have weights; {set_it}")
    sources = data.split("::") if isinstance(data, str) else list(data)
    each = (
        factors.split("::") if isinstance(factors, str) else [factors] if isinstance(factors, float | int) else factors
    )
    if len(each) != len(sources):
        raise ValueError(
            f"{name} has {how_many(len(each), 'factor')} for {how_many(len(sources), 'source')} in "
            f"{argument(options, 'train_data')}: give one for each part between '::'"
        )
    try:
        weights = [float(factor) for factor in each]
    except (TypeError, ValueError):
        weights = []
    if not 0 < sum(weights) < inf:
        raise ValueError(f"{name} is {factors!r}; it must be numbers with a sum above 0")
    return weighted_urls(sources, weights, shard_list)


def count_samples(catalog: Catalog, urls: Sequence[str], place: RankPlace, options: FeedOptions) -> list[int]:
    """Return how many samples of each shard have an image and a caption, by their names. Ranks share the work.

    Raises StallError if a shard gives nothing for ``options.stall_after`` seconds.
    """

    def count(numbers: Iterable[int]) -> dict[int, int]:
        return _counted(catalog, {number: urls[number] for number in numbers}, place, options)

    return shared_out(len(urls), place, count)


def _counted(catalog: Catalog, urls: Mapping[int, str], place: RankPlace, options: FeedOptions) -> dict[int, int]:
    """Count in a thread, which is left alone with storage that hangs."""
    found: Future[dict[int, int]] = Future()

    def count() -> None:
        try:
            found.set_result({number: catalog.count(url) for number, url in urls.items()})
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            found.set_exception(error)

    thread = threading.Thread(target=count, name="wdsflow-count", daemon=True)
    thread.start()
    while not wait([found], timeout=_LOOK).done:
        hanging = catalog.reading(options.stall_after)
        if hanging:
            end_commands(thread)
            rank, world_size = place
            what = f"{_COUNTING}{argument(options, 'train_num_samples')}"
            told = stall_message(
                tally=LossTally(), reading=hanging, rank=rank, world_size=world_size, options=options, what=what
            )
            raise StallError(told)
    return found.result()


def nothing_usable(catalog: Catalog, urls: Sequence[str], place: RankPlace, options: FeedOptions) -> ShardsError:
    """Return the error on shards none of whose samples has an image and a caption, with where these may be instead."""
    tally = LossTally()
    for item in islice((item for url in urls for item in catalog.samples(url)), _LOOKED_AT):
        if isinstance(item, FeedLoss):
            tally.lose(item)
            tally.lacking(tuple(item.detail.split(", ")))
    what = f"none of the samples in {how_many(len(urls), 'shard')} has an image and a caption"
    rank, world_size = place
    return ShardsError(stall_message(tally=tally, rank=rank, world_size=world_size, options=options, what=what))


def _more(url: str) -> Iterable[str]:
    path = None if url.startswith("pipe:") else local_path(url)
    if path is None or os.path.isfile(path) or not (glob.has_magic(path) or os.path.isdir(path)):
        return (url,)
    return expand([url]).urls
