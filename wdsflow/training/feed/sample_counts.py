"""How many samples each shard has, and the error if none has any."""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from itertools import islice
from typing import TypeVar

from wdsflow.shards.shard import Shard
from wdsflow.shards.source.streams import end_commands
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import FeedOptions, ShardsError
from wdsflow.training.ranks import RankPlace, shared_out
from wdsflow.training.sample_tasks import Reading
from wdsflow.training.stalls.field_fixes import argument
from wdsflow.training.stalls.loss_tally import MISSING, FeedLoss, LossTally, say
from wdsflow.training.stalls.stall import StallError, stall_message

from .sample_catalog import Catalog

T = TypeVar("T")

_LOOK = 0.2  # seconds between two checks of a count
_COUNTERS = 16  # shards on servers that are counted at a time
_COUNTING = "the samples of an epoch cannot be counted; a number of samples saves counting them: "
_LOOKED_AT = 100  # samples without an image or a caption whose fields are reported


def count_samples(
    catalog: Catalog, urls: Sequence[Shard], place: RankPlace, options: FeedOptions, *, exact: bool = True
) -> list[int]:
    """Return how many samples of each shard have an image and a caption, judged by names. Ranks share the work.

    For shards on a server ``sizes.json`` next to them is used if it is right about the first of them, on which all ranks
    look: the counts do not depend on the number of ranks. With ``exact`` the catalog then compares each shard with it
    when it is read, and raises FeedError if it is wrong. Raises StallError if a shard yields nothing for ``options.stall_after`` seconds.
    """
    heads: dict[str, int] = {}  # the first shard of each folder on a server
    if catalog.view is None:
        for number, url in enumerate(urls):
            if url.kind == "url" and "?" not in url:
                heads.setdefault(url.rpartition("/")[0], number)

    def count(numbers: Iterable[int]) -> dict[int, tuple[int, bool]]:
        found: dict[int, tuple[int, bool]] = {}
        folders: dict[str, list[int]] = {}
        for number in (own := dict.fromkeys(numbers)):
            folder = urls[number].rpartition("/")[0]
            if folder in heads and number != heads[folder]:
                folders.setdefault(folder, []).append(number)

        def look_up(folder: str) -> None:
            first = urls[heads[folder]]
            if not (sizes := catalog.sizes(first)):
                return
            counted = catalog.count(first)
            if heads[folder] in own:
                found[heads[folder]] = counted, False
            if sizes.get(os.path.basename(first)) == counted:
                names = ((number, os.path.basename(urls[number])) for number in folders[folder])
                found.update((number, (sizes[name], True)) for number, name in names if name in sizes)

        def count_one(number: int) -> None:
            found[number] = catalog.count(urls[number]), False

        abreast = _COUNTERS if heads else 1
        _watched(look_up, list(folders), abreast, catalog, place, options)
        _watched(count_one, [number for number in own if number not in found], abreast, catalog, place, options)
        none = [urls[number] for number in own if not found[number][0]]
        lost = [damage for url in none for damage in catalog.damage(url)]
        lost = [each for each in lost if each.what != MISSING or each.shard.path is None]  # else known by then
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
            deque(left, maxlen=0)  # the others end, too
            done.set_exception(error)

    ends: list[Future[None]] = [Future() for _ in jobs[:abreast]]
    threads = [threading.Thread(target=run, args=(end,), name="wdsflow-count", daemon=True) for end in ends]
    for thread in threads:
        thread.start()
    while (state := wait(ends, timeout=_LOOK, return_when=FIRST_EXCEPTION)).not_done:
        for end in state.done:
            end.result()
        if hanging := catalog.reading(options.stall_after):
            deque(left, maxlen=0)
            for thread in threads:
                end_commands(thread)
            what = f"{_COUNTING}{argument(options, 'train_num_samples')}"
            raise StallError(_message(LossTally(), what, place, options, hanging))
    for end in ends:
        end.result()


def nothing_usable(catalog: Catalog, urls: Sequence[Shard], place: RankPlace, options: FeedOptions) -> ShardsError:
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
