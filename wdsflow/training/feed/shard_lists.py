"""The shards that a command names, and how many samples each of them has."""

import glob
import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from itertools import islice
from math import inf
from typing import Any, TypeVar

from wdsflow.readers.open_clip.startup import openclip_urls, weighted_urls
from wdsflow.shards.source.base import local_file, local_path
from wdsflow.shards.source.streams import end_commands
from wdsflow.shards.urls import NoShards, absent, expand
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import FeedOptions, ShardsError
from wdsflow.training.ranks import RankPlace, shared_out
from wdsflow.training.sample_tasks import Reading
from wdsflow.training.stalls.field_fixes import argument
from wdsflow.training.stalls.loss_tally import FeedLoss, LossTally, say
from wdsflow.training.stalls.stall import StallError, stall_message

from .sample_catalog import Catalog

T = TypeVar("T")

_LOOK = 0.2  # seconds between two checks of a count
_COUNTERS = 16  # shards on servers that are counted at a time
_COUNTING = "the samples of an epoch cannot be counted; a number of samples saves counting them: "
_LOOKED_AT = 100  # samples without an image or a caption whose fields are reported


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
        found = [each for url in urls for each in _expanded(url)]
        missing = list(absent([path for url in found if (path := local_file(url)) is not None]))
        if missing:  # raises if a pattern matches nothing that exists
            expand(part for part in _parts(data) if not part.startswith("pipe:"))
        if missing and len(missing) == len(found):
            raise NoShards(missing[0], f"no such file: {os.path.abspath(missing[0])}")
    except NoShards as error:
        raise ShardsError(f"{error}{error.hint and f': {error.hint}'}") from None
    if missing:
        number = f"{len(missing):,} of {how_many(len(found), 'shard')}"
        say(logging.WARNING, f"feed: {number} not there, first: {escape(missing[0], 200)}")
    return found


def weighted_list(
    data: str | Sequence[str],
    factors: str | Sequence[str | float] | float | None,
    options: FeedOptions,
    *,
    resampled: bool,
) -> tuple[list[str], list[float] | None]:
    """Return shards, and their weights if ``train_data_upsampling_factors`` are given.

    Raises ValueError unless shards are drawn, and each source has a factor; their sum must be above 0.
    """
    if factors is None:
        return shard_list(data), None
    name, drawn = argument(options, "train_data_upsampling_factors"), argument(options, "dataset_resampled")
    if not resampled:
        set_it = f"add {drawn}" if options.argv else f"set {drawn} = True"
        raise ValueError(f"{name} is given without {drawn}: only shards that are drawn have weights; {set_it}")
    sources, each = _parts(data), [factors] if isinstance(factors, float | int) else _parts(factors)
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


def count_samples(
    catalog: Catalog, urls: Sequence[str], place: RankPlace, options: FeedOptions, *, exact: bool = True
) -> list[int]:
    """Return how many samples of each shard have an image and a caption, judged by names. Ranks share the work.

    For shards on a server ``sizes.json`` next to them is used if it is right about the first of them. With ``exact``
    the catalog then compares each shard with it when it is read, and raises FeedError if it is wrong.
    Raises StallError if a shard yields nothing for ``options.stall_after`` seconds.
    """

    def count(numbers: Iterable[int]) -> dict[int, tuple[int, bool]]:
        found: dict[int, tuple[int, bool]] = {}
        folders: dict[str, list[int]] = {}
        for number in (own := list(numbers)):
            url = urls[number]
            if catalog.view is None and "?" not in url and not url.startswith("pipe:") and local_path(url) is None:
                folders.setdefault(url.rpartition("/")[0], []).append(number)

        def look_up(folder: str) -> None:
            sizes, (first, *others) = catalog.sizes(folder), folders[folder]
            if not others or not sizes:
                return
            found[first] = catalog.count(urls[first]), False
            if found[first][0] == sizes.get(os.path.basename(urls[first])):
                names = ((number, os.path.basename(urls[number])) for number in others)
                found.update((number, (sizes[name], True)) for number, name in names if name in sizes)

        def count_one(number: int) -> None:
            found[number] = catalog.count(urls[number]), False

        abreast = _COUNTERS if folders else 1
        _watched(look_up, list(folders), abreast, catalog, place, options)
        _watched(count_one, [number for number in own if number not in found], abreast, catalog, place, options)
        lost = [damage for number in own if not found[number][0] for damage in catalog.damage(urls[number])]
        if lost:
            shard, why = escape(lost[0].shard, 200), escape(lost[0].detail, 200)
            say(logging.WARNING, f"feed: {how_many(len(lost), 'shard')} left out, first: {shard}: {why}")
        return found

    counts = shared_out(len(urls), place, count)
    if exact:
        catalog.expected = {url: number for url, (number, listed) in zip(urls, counts, strict=True) if listed}
    return [number for number, _ in counts]


def _watched(
    do: Callable[[T], None], jobs: Sequence[T], abreast: int, catalog: Catalog, place: RankPlace, options: FeedOptions
) -> None:
    """Do the jobs in daemon threads, which are abandoned if storage hangs. Raises StallError then."""
    left = iter(jobs)  # next() is atomic

    def run(done: Future[None]) -> None:
        try:
            for job in left:
                do(job)
            done.set_result(None)
        except BaseException as error:  # noqa: BLE001 - raised by result()
            done.set_exception(error)

    ends: list[Future[None]] = [Future() for _ in jobs[:abreast]]
    threads = [threading.Thread(target=run, args=(end,), name="wdsflow-count", daemon=True) for end in ends]
    for thread in threads:
        thread.start()
    while (state := wait(ends, timeout=_LOOK, return_when=FIRST_EXCEPTION)).not_done:
        for end in state.done:
            end.result()
        if hanging := catalog.reading(options.stall_after):
            for thread in threads:
                end_commands(thread)
            what = f"{_COUNTING}{argument(options, 'train_num_samples')}"
            raise StallError(_message(LossTally(), what, place, options, hanging))
    for end in ends:
        end.result()


def nothing_usable(catalog: Catalog, urls: Sequence[str], place: RankPlace, options: FeedOptions) -> ShardsError:
    """Return the error for shards without a usable sample; it lists other fields that may hold what is asked for."""
    tally = LossTally()
    catalog.hurt = tally.hurt
    for item in islice((item for url in urls for item in catalog.outline(url)), _LOOKED_AT):
        if isinstance(item, FeedLoss):
            tally.lose(item)
            tally.lacking(tuple(item.detail.split(", ")))
    what = f"none of the samples in {how_many(len(urls), 'shard')} has {' and '.join(catalog.asked())}"
    if tally.fields and catalog.asked()[-1] not in ("an image", "a caption"):
        what += f"; the first has {', '.join(next(iter(tally.fields)))}"
    return ShardsError(_message(tally, what, place, options))


def _message(
    tally: LossTally, what: str, place: RankPlace, options: FeedOptions, reading: Sequence[Reading] = ()
) -> str:
    rank, world_size = place
    return stall_message(tally=tally, reading=reading, rank=rank, world_size=world_size, options=options, what=what)


def _parts(value: str | Sequence[str | float]) -> list[Any]:
    return value.split("::") if isinstance(value, str) else list(value)


def _expanded(url: str) -> Iterable[str]:
    path = None if url.startswith("pipe:") else local_path(url)
    if path is None or os.path.isfile(path) or not (glob.has_magic(path) or os.path.isdir(path)):
        return (url,)
    return expand([url]).urls
