"""OpenCLIP's data loading with wdsflow's feed: same signatures, results, shards and order.

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
from wdsflow.shards.shard_names import IMAGES, alternatives
from wdsflow.stages.caption_sources import captions_for
from wdsflow.text.secrets import redact
from wdsflow.training.columns import FeedColumns
from wdsflow.training.feed.catalog.shard_lists import shard_list
from wdsflow.training.feed.join.open_join import open_join
from wdsflow.training.feed.loader import Loader
from wdsflow.training.feed.recipe import FeedRecipe, FeedSource
from wdsflow.training.feed_options import with_defaults

from .feed_options import FeedOptions, JoinError, SubsetError
from .openclip_identity import feed_identity
from .openclip_order import evaluation_order, shuffle_of, training_order
from .ranks import current_rank

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
    """Return OpenCLIP's training data, with shards read by wdsflow.

    Replaces ``open_clip_train.data.get_data``.

    Args:
        args: the result of ``open_clip_train.params.parse_args([...])``, or any object or dict with
            some of its attributes. Only ``train_data`` or ``val_data`` is needed; the others have
            OpenCLIP's defaults. The feed reads ``batch_size`` (64), ``workers`` (4), ``seed`` (0),
            ``train_num_samples``, ``val_num_samples``, ``dataset_type``, ``dataset_resampled``,
            ``train_data_upsampling_factors``, ``imagenet_val``, ``imagenet_v2``, and, if neither a
            launcher nor torch.distributed sets them, ``rank`` and ``world_size``.
        preprocess_fns: the transforms of images for training and for validation, each from a PIL
            image to a tensor.
        epoch: the first epoch.
        tokenizer: from a list of n captions to n rows of tokens, or from one caption to one row;
            None leaves captions as texts.
        naflex_data_config: as for OpenCLIP 4. Such batches come from OpenCLIP's own loader.
        options: settings of the feed that ``args`` cannot express.

    Returns:
        A ``DataInfo`` for each of "train", "val", "imagenet-val" and "imagenet-v2" that ``args``
        names.

    Raises:
        TypeError: a transform or the tokenizer cannot be called, ``args`` has no attributes, or one
            has a wrong type.
        ValueError: ``args`` names no data, a number in it is too small, a name in it is misspelled,
            or no sample of its shards has an image and a caption.
        ShardsError: a ValueError; the shards do not exist.
        NoOpenClip: an ImportError when this module is imported: OpenCLIP is not installed.
        SubsetError: a ValueError; ``options.ledger`` lacks a shard or a score, a shard has changed
            since, or nothing is kept.
    """
    args = with_defaults(args, vars(parse_args([])))
    preprocess_train, preprocess_val = _pair(preprocess_fns)
    further = {"naflex_data_config": naflex_data_config} if _VERSION_4 else {}
    data_infos: dict[str, Any] = {}
    if args.train_data or str(args.dataset_type).startswith("synthetic"):
        make = _dataset_function(args.train_data, args.dataset_type, options)
        data_infos["train"] = make(
            args, preprocess_train, is_train=True, epoch=epoch, tokenizer=tokenizer, **further
        )
    if args.val_data:
        make = _dataset_function(args.val_data, args.dataset_type, options)
        data_infos["val"] = make(
            args, preprocess_val, is_train=False, tokenizer=tokenizer, **further
        )
    if args.imagenet_val is not None:
        data_infos["imagenet-val"] = _get_imagenet(args, preprocess_fns, "val", **further)
    if args.imagenet_v2 is not None:
        data_infos["imagenet-v2"] = _get_imagenet(args, preprocess_fns, "v2", **further)
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
    """Return the ``DataInfo`` of WebDataset shards.

    Its ``dataloader`` is a ``wdsflow.training.feed.loader.Loader``.

    Other batches, of NaFlex and of text of variable length, come from OpenCLIP's own loader.

    Raises:
        TypeError, ValueError, SubsetError: as for ``get_data``.
    """
    args = with_defaults(args, vars(parse_args([])))
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
    columns = _columns(args, options, is_train=is_train)
    # Data for evaluation stay as they are.
    join = open_join(options, columns.captions) if is_train else None
    max_pixels = options.max_pixels or getattr(args, "max_image_pixels", None) or BOMB_PIXELS
    joined = None if join is None else join.fields
    source = FeedSource.of(columns, preprocess_img, tokenizer, options, max_pixels, joined)
    subset = None
    if is_train:
        order, subset = training_order(args, options, job_rank, source.catalog, join, floor=floor)
    else:
        order = evaluation_order(args, options)
    recipe = FeedRecipe(
        order=order,
        sources=(source,),
        batch_size=args.batch_size,
        options=options,
        job_rank=job_rank,
        seed=int(args.seed),
        trains=is_train,
        shuffle=shuffle_of(order) if is_train else None,
        processes=args.workers,
        data=redact(data) if isinstance(data, str) else "",
    )
    return _data_info(Loader(recipe, epoch, feed_identity(args, recipe, max_pixels, subset)))


def _pair(preprocess_fns: object) -> tuple[Any, Any]:
    """Return the transforms for training and for validation."""
    if not isinstance(preprocess_fns, Sequence) or len(preprocess_fns) != 2:
        raise TypeError(
            "preprocess_fns must be a pair: the transforms for training and for validation"
        )
    return preprocess_fns[0], preprocess_fns[1]


def _columns(args: Namespace, options: FeedOptions, *, is_train: bool) -> FeedColumns:
    """Return the columns of a batch: images and captions.

    They come from the fields that the command names.
    """
    captions = captions_for(options.caption, args, keep_empty=not _VERSION_4)
    if is_train:
        captions = captions.weighted(options.weights)
    image_key = options.image or getattr(args, "image_key", None) or IMAGES
    image_fields = tuple(name.lower() for name in alternatives(image_key))
    return FeedColumns(image_fields, captions, names=("image", "text") if _VERSION_4 else None)


def _data_info(loader: Loader) -> Any:
    """Return a loader as OpenCLIP's training takes it."""
    # In place of OpenCLIP's value that processes share.
    epoch = SimpleNamespace(set_value=loader.set_epoch, get_value=lambda: loader.epoch)
    return DataInfo(dataloader=loader, shared_epoch=epoch)


def _check_upstream(data: Any, options: FeedOptions, *, is_train: bool) -> None:
    """Check for settings that OpenCLIP's own loader would ignore.

    These are a ledger, a table, and ``pipe:`` urls that are not allowed.
    """
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


def _dataset_function(
    data: Any, dataset_type: str, options: FeedOptions | None
) -> Callable[..., Any]:
    """Return the function that loads data of this kind."""
    if names_shards(data, dataset_type):
        return partial(get_wds_dataset, options=options)
    return _get_dataset_fn(data, dataset_type)  # type: ignore[no-any-return]
