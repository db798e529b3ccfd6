"""OpenCLIP's data loading with our feed: same signatures, same results, same shards in the same order.

``wdsflow train`` sets ``open_clip_train.main.get_data = wdsflow.training.openclip.get_data``.
Imports torch and open_clip_train.
"""

import inspect
import logging
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from .feed_options import NoOpenClip

try:
    from open_clip_train import data as upstream
    from open_clip_train.params import parse_args
except ModuleNotFoundError as error:
    raise NoOpenClip(error.name or "open_clip_train") from error

from wdsflow.images.pillow import BOMB_PIXELS
from wdsflow.readers.open_clip.arguments import names_shards
from wdsflow.readers.open_clip.versions import Buffers
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import IMAGES, alternatives
from wdsflow.stages.caption_sources import captions_for
from wdsflow.text.secrets import redact
from wdsflow.training.columns import FeedColumns
from wdsflow.training.feed.catalog.sample_catalog import Catalog
from wdsflow.training.feed.catalog.shard_lists import shard_list, weighted_list
from wdsflow.training.feed.join.check_join import count_joined
from wdsflow.training.feed.join.open_join import FeedJoin, open_join
from wdsflow.training.feed.loader import Loader
from wdsflow.training.feed.recipe import FeedRecipe, FeedSource
from wdsflow.training.feed.subset.subset import Subset
from wdsflow.training.feed_options import completed
from wdsflow.training.orders.balanced import BalancedOrder, Last, MixedSource
from wdsflow.training.orders.openclip import (
    EvaluationOrder,
    OpenClipOrder,
    ResampledOrder,
    Workload,
)
from wdsflow.training.orders.order import Order
from wdsflow.training.stalls.field_fixes import argument, command

from .feed_options import FeedOptions, JoinError, SubsetError
from .openclip_identity import feed_identity
from .openclip_length import epoch_samples
from .ranks import JobRank, current_rank, talks

DataInfo = upstream.DataInfo

# The originals: ours may replace them in their module.
_get_wds_dataset = upstream.get_wds_dataset
_get_dataset_fn = upstream.get_dataset_fn
_get_imagenet = upstream.get_imagenet
_VERSION_4 = "naflex_data_config" in inspect.signature(_get_wds_dataset).parameters
# Arguments of version 4 for other batches.
_NOT_OURS = ("variable_text", "genlip", "length_bucketing")
_log = logging.getLogger("wdsflow.training")


def get_data(
    args: Namespace,
    preprocess_fns: tuple[Callable[[Any], Any], Callable[[Any], Any]],
    epoch: int = 0,
    tokenizer: Callable[[Any], Any] | None = None,
    naflex_data_config: object = None,
    *,
    options: FeedOptions | None = None,
) -> dict[str, Any]:
    """Return OpenCLIP's training data, with shards read by wdsflow; replaces ``open_clip_train.data.get_data``.

    Args:
        args: the result of ``open_clip_train.params.parse_args([...])``, or any object or dict with some of its attributes.
            Only ``train_data`` or ``val_data`` is needed; the others have OpenCLIP's defaults. The feed reads
            ``batch_size`` (64), ``workers`` (4), ``seed`` (0), ``train_num_samples``, ``val_num_samples``,
            ``dataset_type``, ``dataset_resampled``, ``train_data_upsampling_factors``, ``imagenet_val``,
            ``imagenet_v2``, and, if neither a launcher nor torch.distributed sets them, ``rank`` and ``world_size``.
        preprocess_fns: the transforms of images for training and for validation, each from a PIL image to a tensor.
        epoch: the first epoch.
        tokenizer: from a list of n captions to n rows of tokens, or from one caption to one row; None leaves captions
            as texts.
        naflex_data_config: as for OpenCLIP 4. Such batches come from OpenCLIP's own loader.
        options: settings of the feed that ``args`` cannot express.

    Returns:
        A ``DataInfo`` for each of "train", "val", "imagenet-val" and "imagenet-v2" that ``args`` names.

    Raises:
        TypeError: a transform or the tokenizer cannot be called, ``args`` has no attributes, or one has a wrong type.
        ValueError: ``args`` names no data, a number in it is too small, a name in it is misspelled, or no sample of its
            shards has an image and a caption.
        ShardsError: a ValueError; the shards do not exist.
        NoOpenClip: an ImportError when this module is imported: OpenCLIP is not installed.
        SubsetError: a ValueError; ``options.ledger`` lacks a shard or a score, a shard has changed since, or nothing is kept.
    """
    naflex = {"naflex_data_config": naflex_data_config} if _VERSION_4 else {}
    args = completed(args, vars(parse_args([])))
    pair: object = preprocess_fns
    if not isinstance(pair, Sequence) or len(pair) != 2:
        raise TypeError(
            "preprocess_fns must be a pair: the transforms for training and for validation"
        )
    preprocess_train, preprocess_val = pair
    data_infos: dict[str, Any] = {}
    if args.train_data or str(args.dataset_type).startswith("synthetic"):
        make = _maker(args.train_data, args.dataset_type, options)
        data_infos["train"] = make(
            args, preprocess_train, is_train=True, epoch=epoch, tokenizer=tokenizer, **naflex
        )
    if args.val_data:
        make = _maker(args.val_data, args.dataset_type, options)
        data_infos["val"] = make(
            args, preprocess_val, is_train=False, tokenizer=tokenizer, **naflex
        )
    if args.imagenet_val is not None:
        data_infos["imagenet-val"] = _get_imagenet(args, preprocess_fns, "val", **naflex)
    if args.imagenet_v2 is not None:
        data_infos["imagenet-v2"] = _get_imagenet(args, preprocess_fns, "v2", **naflex)
    if not data_infos:
        raise ValueError(
            "args names no data: set train_data, as in --train-data 'shards/{0000..0042}.tar', or val_data"
        )
    return data_infos


def get_wds_dataset(
    args: Namespace,
    preprocess_img: Callable[[Any], Any],
    is_train: bool,
    epoch: int = 0,
    floor: bool = False,
    tokenizer: Callable[[Any], Any] | None = None,
    naflex_data_config: object = None,
    *,
    options: FeedOptions | None = None,
) -> Any:
    """Return the ``DataInfo`` of WebDataset shards; its ``dataloader`` is a ``wdsflow.training.feed.loader.Loader``.

    Other batches, of NaFlex and of text of variable length, come from OpenCLIP's own loader.

    Raises:
        TypeError, ValueError, SubsetError: as for ``get_data``.
    """
    args = completed(args, vars(parse_args([])))
    _check_callables(preprocess_img, tokenizer, is_train=is_train)
    data = args.train_data if is_train else args.val_data
    if not data:
        raise ValueError(f"args names no shards: set {'train' if is_train else 'val'}_data")
    options = options or FeedOptions()
    if naflex_data_config is not None or any(getattr(args, name, False) for name in _NOT_OURS):
        _check_upstream(data, options, is_train=is_train)
        return _get_wds_dataset(
            args,
            preprocess_img,
            is_train,
            epoch,
            floor,
            tokenizer,
            naflex_data_config=naflex_data_config,
        )
    job_rank = current_rank(args)
    captions = captions_for(options.caption, args, keep_empty=not _VERSION_4)
    if is_train:
        captions = captions.weighted(options.weights)
    image_key = options.image or getattr(args, "image_key", None) or IMAGES
    fields = tuple(name.lower() for name in alternatives(image_key))
    limit = options.max_pixels or getattr(args, "max_image_pixels", None) or BOMB_PIXELS
    columns = FeedColumns(fields, captions, names=("image", "text") if _VERSION_4 else None)
    # Data for evaluation stay as they are.
    join = open_join(options, captions) if is_train else None
    joined = None if join is None else join.fields
    source = FeedSource.of(columns, preprocess_img, tokenizer, options, limit, joined)
    order, subset = _order(
        args, options, job_rank, source.catalog, join, is_train=is_train, floor=floor
    )
    recipe = FeedRecipe(
        order=order,
        sources=(source,),
        batch_size=args.batch_size,
        options=options,
        job_rank=job_rank,
        seed=int(args.seed),
        trains=is_train,
        shuffle=_shuffle(order) if is_train else None,
        processes=args.workers,
        data=redact(data) if isinstance(data, str) else "",
    )
    loader = Loader(recipe, epoch, feed_identity(args, recipe, limit, subset))
    # In place of OpenCLIP's value that processes share.
    epoch_of_loader = SimpleNamespace(set_value=loader.set_epoch, get_value=lambda: loader.epoch)
    return DataInfo(dataloader=loader, shared_epoch=epoch_of_loader)


def _check_upstream(data: Any, options: FeedOptions, *, is_train: bool) -> None:
    """Check what OpenCLIP's own loader would ignore: a ledger, a table, and that ``pipe:`` urls are not allowed."""
    if options.ledger is not None and is_train:
        raise SubsetError(
            "NaFlex and text of variable length come from OpenCLIP's own loader, which reads no ledger"
        )
    if options.join is not None and is_train:
        raise JoinError(
            "NaFlex and text of variable length come from OpenCLIP's own loader, which joins no table; "
            "to write shards with its values: wdsflow graft --help"
        )
    # Its loader would run the commands of pipe: urls.
    shard_list(data, options)
    _log.info("NaFlex or text of variable length: batches come from OpenCLIP's own loader")


def _shuffle(order: Order) -> Buffers | None:
    """Return the buffers in which samples of training are shuffled; None if the order of shards is kept."""
    buffers = Buffers.from_environment()
    if isinstance(order, BalancedOrder):
        return order.shuffle(buffers.samples)
    return buffers


def _check_callables(preprocess: object, tokenizer: object, *, is_train: bool) -> None:
    """Raise TypeError before training; an error in a decoder would name a sample."""
    if not callable(preprocess):
        which = "training" if is_train else "validation"
        raise TypeError(
            f"the image transform for {which} is {preprocess!r}; it must be a callable from a PIL image to a tensor, such "
            f"as open_clip.image_transform(224, is_train={is_train})"
        )
    if tokenizer is not None and not callable(tokenizer):
        raise TypeError(
            f"the tokenizer is {tokenizer!r}; it must be a callable, such as open_clip.get_tokenizer('ViT-B-32')"
        )


def _maker(data: Any, dataset_type: str, options: FeedOptions | None) -> Callable[..., Any]:
    """Return the function that loads data of this kind."""
    if names_shards(data, dataset_type):
        return partial(get_wds_dataset, options=options)
    return _get_dataset_fn(data, dataset_type)  # type: ignore[no-any-return]


def _order(
    args: Namespace,
    options: FeedOptions,
    job_rank: JobRank,
    catalog: Catalog,
    join: FeedJoin | None,
    *,
    is_train: bool,
    floor: bool,
) -> tuple[Order, Subset | None]:
    """Return the order of a rank; with a ledger, also the kept samples, to which the catalog is then limited."""
    if not is_train:
        samples = args.val_num_samples or 0
        return EvaluationOrder(
            shard_list(args.val_data, options),
            workers=args.workers,
            batch_size=args.batch_size,
            samples=samples,
        ), None
    factors = args.train_data_upsampling_factors
    resampled = bool(args.dataset_resampled)
    urls, weights = weighted_list(args.train_data, factors, options, resampled=resampled)
    subset: Subset | None = None
    if options.ledger is not None:
        data = args.train_data if isinstance(args.train_data, str) else ""
        subset = Subset(urls, weights, job_rank, options, data)
        urls = subset.urls
        weights = subset.weights
        catalog.view = subset.view
    if join is not None:
        join.begin(urls)
    if options.schedule == "balanced":
        if resampled:
            raise ValueError(
                f"the balanced schedule gives each sample once per epoch, {argument(options, 'dataset_resampled')} does not"
            )
        return _balanced(args, urls, catalog, job_rank, options), subset
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
    try:
        return OpenClipOrder(urls, work), subset
    except AssertionError as error:
        fewer = argument(options, "workers")
        balanced = command(options, schedule="balanced")
        raise AssertionError(
            f"{error}\nTo fix it:\n  fewer workers than {args.workers} ({fewer})\n  one share for all workers: {balanced}"
        ) from None


def _balanced(
    args: Namespace,
    urls: Sequence[Shard],
    catalog: Catalog,
    job_rank: JobRank,
    options: FeedOptions,
) -> BalancedOrder:
    counts = count_joined(catalog, urls, job_rank, options)
    _log.info(
        "balanced: an epoch is all %s samples; a given number of samples and of workers is ignored",
        f"{sum(counts):,}",
    )
    source = MixedSource(tuple(zip(urls, counts, strict=True)))
    # A gathered loss needs batches of equal size.
    last: Last = "even" if talks() else "exact"
    return BalancedOrder(
        [source],
        job_rank=job_rank,
        batch_size=args.batch_size,
        seed=int(args.seed),
        last=last,
        memory=options.memory_bytes,
    )
