"""How many usable samples each shard has, counted by all ranks together."""

import logging
import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from wdsflow.shards.shard import Shard
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.ranks import JobRank, divide_among_ranks
from wdsflow.training.stalls.field_fixes import argument_name
from wdsflow.training.stalls.loss_tally import MISSING, LossTally, log_or_print
from wdsflow.training.stalls.stall import StallError, stall_message

from .sample_catalog import Catalog
from .watched_threads import HangingShardsError, run_watched

# Shards on servers that are counted at a time.
_COUNTERS = 16
_COUNTING = "the samples of an epoch cannot be counted; a number of samples saves counting them: "


class ShardCount(NamedTuple):
    """The number of samples in a shard.

    ``listed``: the number is from ``sizes.json``, and the shard has not been read.
    """

    samples: int
    listed: bool


def count_samples(
    catalog: Catalog,
    urls: Sequence[Shard],
    job_rank: JobRank,
    options: FeedOptions,
    *,
    exact: bool = True,
) -> list[int]:
    """Return how many samples of each shard have all fields that the feed needs.

    This is judged by member names. The ranks share the work.

    For shards on a server ``sizes.json`` next to them is used if it is right about the first of
    them, on which all ranks look: the counts do not depend on the number of ranks. With ``exact``
    the catalog then compares each shard with it when it is read, and raises FeedError if it is
    wrong. Raises StallError if a shard yields nothing for ``options.stall_after`` seconds.
    """
    counts = divide_among_ranks(
        len(urls), job_rank, partial(_count_some, catalog, urls, job_rank, options)
    )
    if exact:
        catalog.expected = {
            url: count.samples for url, count in zip(urls, counts, strict=True) if count.listed
        }
    return [count.samples for count in counts]


def _count_some(
    catalog: Catalog,
    urls: Sequence[Shard],
    job_rank: JobRank,
    options: FeedOptions,
    numbers: Iterable[int],
) -> dict[int, ShardCount]:
    """Count the shards of this rank."""
    counting = _Counting(catalog, urls, list(dict.fromkeys(numbers)))
    try:
        counting.run(options.stall_after)
    except HangingShardsError as error:
        message = stall_message(
            tally=LossTally(),
            reading=error.reading,
            rank=job_rank.rank,
            world_size=job_rank.world_size,
            options=options,
            event=f"{_COUNTING}{argument_name(options, 'train_num_samples')}",
        )
        raise StallError(message) from None
    counting.warn_of_damage()
    return counting.counts


class _Counting:
    """Counts the shards ``numbers``, which are numbers of ``urls``."""

    def __init__(self, catalog: Catalog, urls: Sequence[Shard], numbers: Sequence[int]) -> None:
        self.counts: dict[int, ShardCount] = {}
        self._catalog, self._urls, self._numbers = catalog, urls, numbers
        # The part of a shard that a ledger keeps has other numbers than sizes.json, and so may have
        # samples with fields of a table.
        is_listed = catalog.view is None and catalog.join is None
        self._first = _first_of_folders(urls) if is_listed else {}
        # Shards of this rank that sizes.json may know, by
        # folder. The first of each folder is always read.
        self._others: dict[str, list[int]] = {}
        for number in numbers:
            folder = _folder(urls[number])
            if folder in self._first and number != self._first[folder]:
                self._others.setdefault(folder, []).append(number)

    def run(self, patience: float) -> None:
        """Count all of them.

        Raises HangingShardsError if a shard yields nothing for ``patience`` seconds.
        """
        urls = self._urls
        is_remote = any(urls[number].kind == "url" for number in self._numbers)
        threads = _COUNTERS if is_remote else 1
        run_watched(self._use_sizes, list(self._others), threads, self._catalog, patience)
        unread = [number for number in self._numbers if number not in self.counts]
        # A shard that is named several times is read once.
        first: dict[Shard, int] = {}
        for number in unread:
            first.setdefault(urls[number], number)
        run_watched(self._read, list(first.values()), threads, self._catalog, patience)
        for number in unread:
            self.counts[number] = self.counts[first[urls[number]]]

    def warn_of_damage(self) -> None:
        """Log the number of unreadable shards without samples, and why the first cannot be read."""
        damage = []
        for number in self._numbers:
            if not self.counts[number].samples:
                damage += self._catalog.damage(self._urls[number])
        # A missing file has been reported when its pattern was expanded.
        damage = [one for one in damage if one.what != MISSING or one.shard.path is None]
        if damage:
            shard, why = escape(damage[0].shard, 200), escape(damage[0].detail, 200)
            log_or_print(
                logging.WARNING,
                f"feed: {how_many(len(damage), 'shard')} left out, first: {shard}: {why}",
            )

    def _use_sizes(self, folder: str) -> None:
        """Use the counts of a folder's ``sizes.json`` if that of the first shard is correct."""
        number = self._first[folder]
        first = self._urls[number]
        sizes = self._catalog.stored_counts(first)
        if not sizes:
            return
        counted = self._catalog.count(first)
        if number in self._numbers:
            self.counts[number] = ShardCount(counted, listed=False)
        if sizes.get(os.path.basename(first)) != counted:
            return
        for other in self._others[folder]:
            name = os.path.basename(self._urls[other])
            if name in sizes:
                self.counts[other] = ShardCount(sizes[name], listed=True)

    def _read(self, number: int) -> None:
        self.counts[number] = ShardCount(self._catalog.count(self._urls[number]), listed=False)


def _first_of_folders(urls: Sequence[Shard]) -> dict[str, int]:
    """Return the number of the first shard of each folder on a server.

    >>> from wdsflow.shards.source.base import single_shard
    >>> names = ("b/0.tar", "a/0.tar", "a/1.tar", "b/1.tar", "c/0.tar?signature=x")
    >>> _first_of_folders([single_shard(f"https://host/{name}") for name in names])
    {'https://host/b': 0, 'https://host/a': 1}
    """
    first: dict[str, int] = {}
    for number, url in enumerate(urls):
        # A signature in the url is of this file alone.
        if url.kind == "url" and "?" not in url:
            first.setdefault(_folder(url), number)
    return first


def _folder(url: Shard) -> str:
    return url.rpartition("/")[0]
