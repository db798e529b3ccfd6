"""The shards that a training command or a feed names, and their weights."""

import logging
import os
from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple

from wdsflow.readers.open_clip.url_expansion import weighted_urls
from wdsflow.shards.local_shards import missing_paths
from wdsflow.shards.shard import Shard
from wdsflow.shards.urls import NoShards, PipeNotAllowed, expand
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import FeedOptions, ShardsError
from wdsflow.training.ranks import JobRank, are_connected, is_first_rank, run_on_first_rank
from wdsflow.training.stalls.field_fixes import argument_name, pipe_fixes
from wdsflow.training.stalls.loss_tally import log_or_print


class _Listing(NamedTuple):
    """What a rank found: its shards, or why there are none."""

    shards: list[Shard]
    error: str = ""

    @property
    def are_on_servers(self) -> bool:
        """Whether other ranks find the same shards."""
        return all(shard.kind == "url" for shard in self.shards)


def shard_list_of_ranks(
    data: str | Sequence[str], options: FeedOptions, job_rank: JobRank
) -> list[Shard]:
    """Return the shards as ``shard_list`` does, agreed among connected ranks.

    If all shards are on servers, the ranks use the list of the first rank.

    So a folder is listed once, and a branch of the hub is looked up once: what is written meanwhile
    does not give ranks different shards. Of local shards each machine has its own.
    """
    if not are_connected(job_rank):
        return shard_list(data, options)
    first = run_on_first_rank(partial(_listing, data, options))
    if first.error:
        raise ShardsError(first.error)
    if first.are_on_servers or is_first_rank():
        return first.shards
    return shard_list(data, options)


def _listing(data: str | Sequence[str], options: FeedOptions) -> _Listing:
    try:
        return _Listing(shard_list(data, options))
    except Exception as error:  # noqa: BLE001 - the other ranks wait for an answer
        is_explained = isinstance(error, ShardsError)
        return _Listing([], str(error) if is_explained else repr(error))


def shard_list(data: str | Sequence[str], options: FeedOptions) -> list[Shard]:
    """Return the shards that a training command or a feed names, in this order.

    Raises ShardsError if a pattern matches nothing, cannot be expanded, or is a command that
    ``options`` do not allow; warns of single shards that are missing.
    """
    try:
        shards = expand(data, allow_pipe=options.allow_pipe).urls
        missing = list(missing_paths([shard for shard in shards if shard.path is not None]))
        if missing and len(missing) == len(shards):
            raise NoShards(missing[0], f"no such file: {os.path.abspath(missing[0])}")
    except PipeNotAllowed as error:
        raise ShardsError("\n  ".join([f"{error}:", *pipe_fixes(options)])) from None
    except NoShards as error:
        raise ShardsError(f"{error}{error.hint and f': {error.hint}'}") from None
    if missing:
        number = f"{len(missing):,} of {how_many(len(shards), 'shard')}"
        log_or_print(logging.WARNING, f"feed: {number} not there, first: {escape(missing[0], 200)}")
    return shards


def weighted_list(
    data: str | Sequence[str],
    factors: str | Sequence[str | float] | float | None,
    options: FeedOptions,
    job_rank: JobRank,
    *,
    resampled: bool,
) -> tuple[list[Shard], list[float] | None]:
    """Return shards, and their weights if ``train_data_upsampling_factors`` are given.

    Raises ValueError unless shards are drawn, and each source has a factor; their sum must be above
    0.
    """
    shards_of = partial(shard_list_of_ranks, options=options, job_rank=job_rank)
    if factors is None:
        return shards_of(data), None
    name = argument_name(options, "train_data_upsampling_factors")
    drawn = argument_name(options, "dataset_resampled")
    if not resampled:
        set_it = f"add {drawn}" if options.argv else f"set {drawn} = True"
        raise ValueError(
            f"{name} is given without {drawn}: only shards that are drawn have weights; {set_it}"
        )
    sources = _parts(data)
    given = [factors] if isinstance(factors, float | int) else _parts(factors)
    if len(given) != len(sources):
        raise ValueError(
            f"{name} has {how_many(len(given), 'factor')} for {how_many(len(sources), 'source')} in "
            f"{argument_name(options, 'train_data')}: give one for each part between '::'"
        )
    try:
        weights = [float(factor) for factor in given]
    except (TypeError, ValueError):
        weights = []
    if not 0 < sum(weights) < inf:
        raise ValueError(f"{name} is {factors!r}; it must be numbers with a sum above 0")
    return weighted_urls(sources, weights, shards_of)


def _parts(value: str | Sequence[str | float]) -> list[Any]:
    return value.split("::") if isinstance(value, str) else list(value)
