"""The order in which a rank is fed the samples of OpenCLIP's training or evaluation."""

import logging
from argparse import Namespace
from collections.abc import Sequence

from wdsflow.readers.open_clip.versions import Buffers
from wdsflow.shards.shard import Shard
from wdsflow.training.feed.catalog.sample_catalog import Catalog
from wdsflow.training.feed.catalog.shard_lists import shard_list, weighted_list
from wdsflow.training.feed.join.check_join import count_and_check_join
from wdsflow.training.feed.join.open_join import FeedJoin
from wdsflow.training.feed.subset.subset import Subset
from wdsflow.training.orders.balanced import BalancedOrder
from wdsflow.training.orders.mixed_streams import MixedSource
from wdsflow.training.orders.openclip import (
    EvaluationOrder,
    OpenClipOrder,
    ResampledOrder,
    Workload,
)
from wdsflow.training.orders.order import Order
from wdsflow.training.orders.step_sizes import Last
from wdsflow.training.stalls.field_fixes import argument_name, rerun_command

from .feed_options import FeedOptions
from .openclip_length import epoch_samples
from .ranks import JobRank, is_distributed

_log = logging.getLogger("wdsflow.training")


def evaluation_order(args: Namespace, options: FeedOptions) -> Order:
    """Return the order of samples for evaluation: each once."""
    return EvaluationOrder(
        shard_list(args.val_data, options),
        workers=args.workers,
        batch_size=args.batch_size,
        samples=args.val_num_samples or 0,
    )


def training_order(
    args: Namespace,
    options: FeedOptions,
    job_rank: JobRank,
    catalog: Catalog,
    join: FeedJoin | None,
    *,
    floor: bool,
) -> tuple[Order, Subset | None]:
    """Return the order of samples for training, and the kept samples if there is a ledger.

    The catalog is then limited to the kept samples.

    Args:
        args: of the training.
        options: settings of the feed.
        job_rank: the rank that is fed.
        catalog: finds the samples of the shards.
        join: the join of a table; None without one.
        floor: the number of batches is rounded down.
    """
    resampled = bool(args.dataset_resampled)
    factors = args.train_data_upsampling_factors
    urls, weights = weighted_list(args.train_data, factors, options, job_rank, resampled=resampled)
    subset: Subset | None = None
    if options.ledger is not None:
        data = args.train_data if isinstance(args.train_data, str) else ""
        subset = Subset(urls, weights, job_rank, options, data)
        urls = subset.urls
        weights = subset.weights
        catalog.view = subset.view
    if join is not None:
        join.find_key_prefixes(urls)

    if options.schedule == "balanced":
        if resampled:
            flag = argument_name(options, "dataset_resampled")
            raise ValueError(
                f"the balanced schedule gives each sample once per epoch, {flag} does not"
            )
        return _balanced_order(args, urls, catalog, job_rank, options), subset
    work = Workload(
        job_rank=job_rank,
        workers=args.workers,
        batch_size=args.batch_size,
        samples=epoch_samples(args, urls, catalog, job_rank, options),
        seed=int(args.seed),
        floor=floor,
        buffers=Buffers.from_environment(),
    )
    if resampled:
        return ResampledOrder(urls, weights, work), subset
    return _openclip_order(args, urls, work, options), subset


def shuffle_of(order: Order) -> Buffers | None:
    """Return the shuffle buffers of a training order.

    None if the order of shards is kept.
    """
    buffers = Buffers.from_environment()
    if isinstance(order, BalancedOrder):
        return order.shuffle(buffers.samples)
    return buffers


def _openclip_order(
    args: Namespace, urls: Sequence[Shard], work: Workload, options: FeedOptions
) -> OpenClipOrder:
    """Return the order of OpenCLIP's own loader.

    Like that loader, raises AssertionError for fewer shards than workers.
    """
    try:
        return OpenClipOrder(urls, work)
    except AssertionError as error:
        flag = argument_name(options, "workers")
        balanced = rerun_command(options, schedule="balanced")
        raise AssertionError(
            f"{error}\nTo fix it:\n  fewer workers than {args.workers} ({flag})\n  one share for all workers: {balanced}"
        ) from None


def _balanced_order(
    args: Namespace,
    urls: Sequence[Shard],
    catalog: Catalog,
    job_rank: JobRank,
    options: FeedOptions,
) -> BalancedOrder:
    """Return the order in which all ranks and workers share the samples of an epoch.

    The samples are counted.
    """
    counts = count_and_check_join(catalog, urls, job_rank, options)
    _log.info(
        "balanced: an epoch is all %s samples; a given number of samples and of workers is ignored",
        f"{sum(counts):,}",
    )
    source = MixedSource(tuple(zip(urls, counts, strict=True)))
    # A gathered loss needs batches of equal size.
    last: Last = "even" if is_distributed() else "exact"
    return BalancedOrder(
        [source],
        job_rank=job_rank,
        batch_size=args.batch_size,
        seed=int(args.seed),
        last=last,
        memory=options.memory_bytes,
    )
