"""A feed for any training loop, from one or several sources. Imports torch."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from wdsflow.shards.shard_names import IMAGES
from wdsflow.text.words import how_many

from .columns import UserMap
from .feed.loader import Loader
from .feed.recipe import FeedRecipe
from .feed_options import FeedError, FeedOptions, FeedStopped, whole_number
from .orders.balanced import BalancedOrder
from .ranks import JobRank, current_rank, decoders_for, is_distributed
from .sources import (
    Fields,
    FieldsToSet,
    OpenedSource,
    Path,
    Shards,
    WeightedSource,
    check_mix,
    field_names,
    open_source,
    sources_with_shards,
    warn_of_long_epoch,
)

# Samples from which the next one is drawn, unless their number is given.
_SHUFFLE = 5000


def feed(
    shards: Shards | Mapping[str, float | WeightedSource],
    *,
    batch_size: int,
    fields: Fields = (IMAGES, "txt"),
    map: UserMap | None = None,  # noqa: A002 - as everywhere
    transform: Callable[[Any], Any] | None = None,
    tokenizer: Callable[[Any], Any] | None = None,
    shuffle: int | bool = True,
    seed: int = 0,
    ledger: Path | None = None,
    where: str | None = None,
    join: Path | None = None,
    join_on: str = "key",
    join_set: FieldsToSet = (),
    caption_probs: Sequence[float] | None = None,
    cache: Path | None = None,
    cache_size: int | str | None = None,
    drop_last: bool = False,
    epoch_samples: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    options: FeedOptions | None = None,
) -> Loader:
    """Return a feed of batches for any training loop, in place of a DataLoader.

    Each sample is given once in an epoch, and all ranks get the same number of batches. Each
    ``iter()`` begins the next epoch; ``set_epoch`` chooses one. ``state_dict()`` is small, the same
    on all ranks, and JSON: with ``load_state_dict`` any number of ranks, of any batch size and
    number of decoders, continues after the batch that was given last. The rest of an epoch then
    gives each sample once that has not been given.

    A sample that cannot be read or decoded keeps its place in the order; a sample of the next batch
    takes it, so that batches stay equal, and is counted as repeated. A rank whose last samples are
    all damaged gives the first valid ones of the epoch instead. If a resume leaves fewer samples
    than ranks, the others' epoch
    has ended; if torch.distributed connects them, they get one that another rank gets too, and take
    the same steps.

    Args:
        shards: a pattern such as "shards/{000..099}.tar" or "s3://bucket/*.tar", several, or for a
            mix a dict from patterns to weights, or to ``WeightedSource``.
        batch_size: samples of a batch of one rank. The last two batches of an epoch may be smaller.
        fields: what a batch consists of. The first field of pictures ("jpg;png;webp", alternatives)
            is the image, the first of texts ("txt", "json:caption", "txt|json:alt") the caption.
            Others are "__key__", "__url__", and members: "cls" is a number, "json" an object, "npy"
            an array, anything else bytes. A dict of names to fields gives batches that are dicts.
        map: makes a sample, from a dict of "__key__", "__url__" and the bytes of all members,
            instead of ``fields``. What it returns for the samples is joined to tensors, in tuples,
            lists and dicts by part.
        transform: from a PIL image to a tensor: OpenCLIP's, torchvision's, or any function; None
            gives RGB arrays.
        tokenizer: from a list of n captions to n rows, or from one caption to one row; None leaves
            captions as texts.
        shuffle: True draws each sample from a buffer of 5,000 of all ranks together; a number is
            the size of that buffer. Shards are shuffled as well, and up to 48 are read side by
            side. False, or 0, gives shards and samples in their order.
        seed: of the order, and of random transforms, which are seeded for each sample.
        ledger: folder that ``wdsflow measure`` or ``filter`` wrote, for ``where``.
        where: give only samples that this predicate keeps: "clip_similarity > 0.28".
        join: a table whose values become fields of samples while they are read, instead of the
            members in the shards: a file (.parquet, .csv, .jsonl), a folder of such files, or one
            that ``wdsflow measure`` or ``filter`` wrote. The rules are those of ``wdsflow graft``;
            ``options`` has ``join_ambiguous`` and ``join_drop_unmatched``.
        join_on: "key", or "json:NAME" for a value in the json; "key=COLUMN" if the column of the
            table has another name.
        join_set: what to set, from which column: {"txt": "caption", "json:recaption": "text"}.
        caption_probs: weights of the places of captions in ``fields``, such as (0.5, 0.5) for
            "txt|join:caption". One is drawn for each sample and epoch; the others follow if the
            sample lacks it.
        cache: folder on a disk of this machine that keeps shards of servers, for all ranks and runs
            here. What is needed next is kept; the batches are the same as without it.
        cache_size: limit of all shards in ``cache``, such as "500GiB".
        drop_last: leave out the last batches that are smaller. Without it batches of the last step
            may differ by one sample between ranks, which losses that gather tensors of all ranks do
            not allow.
        epoch_samples: samples of an epoch, of all ranks; None: all of one source; of several, until
            each that may repeat has been given once, or the first with ``end="stop"`` has.
        rank: of this process; None: from RANK and WORLD_SIZE, as torchrun sets them, or else from
            torch.distributed, which must be set up before, or else from mpirun or srun. Give both
            ``rank`` and ``world_size``, or neither.
        world_size: number of ranks, likewise.
        options: settings that are not named here: decoders, memory, stall_after, metrics.

    Returns:
        An iterable of batches, a ``torch.utils.data.IterableDataset`` with a length: lists of
            columns, images float32
        (n, 3, height, width) for a known transform.

    Raises:
        FeedError: an argument is wrong, the memory is too little, or nothing is left for a rank.
        ShardsError: a ValueError; the shards do not exist, or no sample has all fields.
        SubsetError: a ValueError; a ledger does not fit its shards.
        JoinError: a ValueError; the table cannot be read, no sample has a row, or several rows or
            samples have one key.

    While it runs, it raises StallError instead of waiting forever, with the reason and what helps.
    """
    # A copy: debuggers add to it.
    given = dict(locals())
    try:
        batch_size = whole_number("batch_size", batch_size, 1)
        seed = whole_number("seed", seed)
        buffer = _shuffle_buffer(shuffle)
        if epoch_samples is not None:
            epoch_samples = whole_number("epoch_samples", epoch_samples, 1)
        job_rank = _job_rank(rank, world_size)
    except (TypeError, ValueError) as error:
        raise FeedError(str(error)) from None
    if drop_last not in (True, False):
        raise FeedError(f"drop_last is {drop_last!r}; it must be True or False")
    usual = WeightedSource(
        fields=fields,
        map=map,
        transform=transform,
        tokenizer=tokenizer,
        ledger=ledger,
        where=where,
        join=join,
        join_on=join_on,
        join_set=join_set,
        caption_probs=caption_probs,
    )
    options = _checked(FeedOptions() if options is None else options)
    try:
        options = replace(
            options,
            fields=field_names(fields),
            cache=None if cache is None else os.fspath(cache),
            cache_size=cache_size,
        )
        sources = sources_with_shards(shards, usual)
        opened = [open_source(data, source, job_rank, options) for data, source in sources]
        check_mix(opened)
        order = _order(
            opened, options, job_rank, batch_size, seed, buffer, epoch_samples, drop_last=drop_last
        )
        warn_of_long_epoch(order, opened, given=epoch_samples is not None)
        loader = _loader(order, opened, options, shuffle=buffer, rank_detected=rank is None)
        loader.make_again = partial(feed, **given | job_rank._asdict())
        return loader
    except ValueError as error:
        if isinstance(error, FeedStopped):
            raise
        raise FeedError(str(error)) from None


def _order(
    opened: Sequence[OpenedSource],
    options: FeedOptions,
    job_rank: JobRank,
    batch_size: int,
    seed: int,
    buffer: int,
    epoch_samples: int | None,
    *,
    drop_last: bool,
) -> BalancedOrder:
    """Return the order of the samples. Raises FeedError if it has no batch."""
    order = BalancedOrder(
        [source.mixed for source in opened],
        job_rank=job_rank,
        batch_size=batch_size,
        seed=seed,
        last="drop" if drop_last else "exact",
        together=is_distributed(),
        memory=options.memory_bytes,
        length=epoch_samples,
        shuffled=buffer > 0,
    )
    if not order.num_batches:
        raise FeedError(
            f"drop_last=True leaves no batch: an epoch of {how_many(order.length, 'sample')} is less than "
            f"batch_size={batch_size} for {how_many(job_rank.world_size, 'rank')}; use smaller batches, or drop_last=False"
        )
    return order


def _shuffle_buffer(shuffle: int | bool) -> int:
    """Return the size of the shuffle buffer in samples.

    0: samples keep their order. Raises TypeError, ValueError.
    """
    if isinstance(shuffle, bool):
        return _SHUFFLE if shuffle else 0
    try:
        return whole_number("shuffle", shuffle, 0)
    except (TypeError, ValueError) as error:
        reason = f"shuffle is {shuffle!r}; it must be True, False, or the size of the shuffle buffer in samples"
        raise type(error)(reason) from None


def _job_rank(rank: int | None, world_size: int | None) -> JobRank:
    if rank is None or world_size is None:
        if rank is not None or world_size is not None:
            raise FeedError(f"rank is {rank} and world_size is {world_size}: give both, or neither")
        return current_rank()
    given = JobRank(whole_number("rank", rank), whole_number("world_size", world_size, 1))
    if not 0 <= given.rank < given.world_size:
        raise FeedError(
            f"rank is {rank}; with world_size={world_size} it must be 0 to {world_size - 1}"
        )
    return given


def _loader(
    order: BalancedOrder,
    opened: Sequence[OpenedSource],
    options: FeedOptions,
    *,
    shuffle: int,
    rank_detected: bool,
) -> Loader:
    recipe = FeedRecipe(
        order=order,
        sources=tuple(source.source for source in opened),
        batch_size=min(order.batch_size, -(-order.length // order.job_rank.world_size)),
        options=options,
        job_rank=order.job_rank,
        seed=order.seed,
        trains=True,
        shuffle=order.shuffle(shuffle),
        processes=decoders_for(options.decoders),
        data="::".join(source.data for source in opened),
        rank_detected=rank_detected,
    )
    identity: dict[str, object] = {
        "schedule": order.name,
        "seed": order.seed,
        "shuffle": shuffle,
        "streams": order.most_streams,
        "last": order.last,
    }
    for number, source in enumerate(opened, start=1):
        identity[f"source {number}"] = source.identity
    # It differs with the sources, which say more.
    identity["samples"] = order.length
    return Loader(recipe, 0, identity)


def _checked(options: FeedOptions) -> FeedOptions:
    plain = FeedOptions()
    if not isinstance(options, FeedOptions):
        raise FeedError(f"options is {options!r}; give wdsflow.FeedOptions(...)")
    for name, instead in (
        ("caption", "fields"),
        ("image", "fields"),
        ("schedule", "shuffle"),
        ("ledger", "ledger"),
        ("join", "join"),
        ("join_on", "join_on"),
        ("caption_probs", "caption_probs"),
        ("cache", "cache"),
    ):
        if getattr(options, name) != getattr(plain, name):
            raise FeedError(
                f"options has {name}={getattr(options, name)!r}; wdsflow.feed takes {instead}= for that"
            )
    return options
