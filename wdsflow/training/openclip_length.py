"""The number of samples in an epoch of OpenCLIP's training.

It is given, read from a file next to the shards, or counted.

Imports open_clip_train.
"""

import json
import logging
import os
import time
from argparse import Namespace
from collections.abc import Sequence
from math import inf
from pathlib import Path

from open_clip_train import data as upstream

from wdsflow.readers.sidecar_facts import file_error_text
from wdsflow.records.shard_counts import COUNTS
from wdsflow.shards.shard import Shard
from wdsflow.text.shell import quote_path
from wdsflow.text.words import how_many
from wdsflow.training.feed.catalog.nothing_usable import nothing_usable_error
from wdsflow.training.feed.catalog.sample_catalog import Catalog
from wdsflow.training.feed.join.check_join import check_some_match, count_and_check_join

from .feed_options import FeedOptions
from .ranks import JobRank

# What OpenCLIP's function and the contents of such a file may raise.
_UNUSABLE = (
    OSError,
    LookupError,
    ValueError,
    TypeError,
    ArithmeticError,
    SyntaxError,
    RecursionError,
)
_log = logging.getLogger("wdsflow.training")


def epoch_samples(
    args: Namespace,
    urls: Sequence[Shard],
    catalog: Catalog,
    job_rank: JobRank,
    options: FeedOptions,
) -> float:
    """Return the number of samples in an epoch.

    It is given, read from a file next to the shards, or counted.
    """
    size = _known_size(args, urls, options)
    if size is not None:
        _check_join(urls, catalog, job_rank, options)
        return size
    started = time.perf_counter()
    counted = sum(count_and_check_join(catalog, urls, job_rank, options, exact=False))
    if not counted:
        raise nothing_usable_error(catalog, urls, job_rank, options)
    _log.info(
        "counted %s samples in %s in %.1f s",
        f"{counted:,}",
        how_many(len(urls), "shard"),
        time.perf_counter() - started,
    )
    return counted


def _known_size(args: Namespace, urls: Sequence[Shard], options: FeedOptions) -> float | None:
    """Return the number of samples in an epoch, if it is given, or in a file next to the shards."""
    if args.train_num_samples is not None:
        return float(args.train_num_samples)
    if options.ledger is not None or options.join_drop_unmatched:
        # The file counts all samples of the shards.
        return None
    if not isinstance(args.train_data, str) or "::" in args.train_data:
        # Several patterns may be of several folders.
        return None
    return _stored_size(args.train_data, len(urls))


def _check_join(
    urls: Sequence[Shard], catalog: Catalog, job_rank: JobRank, options: FeedOptions
) -> None:
    """Check the join of samples that need not be counted.

    All samples are listed only to find ambiguous ones.
    """
    if catalog.join is None:
        return
    if options.join_ambiguous == "each":
        check_some_match(catalog.join, catalog, urls, job_rank, options)
    else:
        count_and_check_join(catalog, urls, job_rank, options, exact=False)


def _stored_size(data: str, shards: int) -> float | None:
    """Return the number of samples by ``sizes.json`` or ``__len__`` next to the shards.

    None if these are unusable: OpenCLIP would fail.
    """
    folder = os.path.dirname(data) or "."
    try:
        stored, listed = upstream.get_dataset_size(data)
        _check_counts(folder)
        size = float(stored or 0)
    except _UNUSABLE as error:
        reason = (
            f"it does not list {error}" if isinstance(error, KeyError) else file_error_text(error)
        )
        _log.warning(
            "%s cannot be used, samples are counted: %s; to write it again: wdsflow index %s --sizes --len --restart",
            os.path.join(folder, _file_at_fault(folder)),
            reason,
            quote_path(folder),
        )
        return None
    return size if listed == shards and 0 < size < inf else None


def _check_counts(folder: str) -> None:
    """Raise ValueError if ``sizes.json`` has a negative count, which OpenCLIP would add.

    Other faults raise their own errors.
    """
    sizes = Path(folder, COUNTS[0])
    if not sizes.is_file():
        return
    counts = json.loads(sizes.read_bytes()).values()
    if min(map(int, counts), default=0) < 0:
        raise ValueError("it has a negative count")


def _file_at_fault(folder: str) -> str:
    """Return the name of the file that OpenCLIP takes: the first that exists."""
    for name in COUNTS:
        if os.path.isfile(os.path.join(folder, name)):
            return name
    return COUNTS[0]
