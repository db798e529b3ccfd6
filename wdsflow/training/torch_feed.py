"""A feed for any training loop, from one or several sources. Imports torch."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from logging import WARNING
from math import inf
from typing import Any, Literal

from wdsflow.shards.shard_names import IMAGES
from wdsflow.text.secrets import redact
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from .columns import Columns, UserMap, parse_fields
from .feed.loader import Loader
from .feed.nothing_usable import nothing_usable
from .feed.recipe import FeedRecipe, FeedSource
from .feed.sample_counts import count_samples
from .feed.shard_lists import shard_list
from .feed.subset import Subset
from .feed_options import FeedError, FeedOptions, FeedStopped, whole
from .orders.balanced import BalancedOrder, MixedSource
from .pixels.image_work import as_rgb
from .ranks import RankPlace, decoders_for, place, talks
from .stalls.loss_tally import say

Fields = Sequence[str] | Mapping[str, str]
Path = str | os.PathLike[str]
Shards = Path | Sequence[Path]
_SHUFFLE = 5000  # samples from which the next one is drawn, unless their number is given
_LONG = 20  # times the samples of all sources, from which on an epoch is worth a warning


@dataclass(frozen=True, kw_only=True)
class WeightedSource:
    """One source of a mixed feed: its weight, and what differs from the other sources. None: as for the feed.

    ``end``: "repeat" gives its samples again while the epoch lasts; "stop" ends the epoch when all have been given.
    """

    weight: float = 1.0
    end: Literal["repeat", "stop"] = "repeat"
    fields: Fields | None = None
    map: UserMap | None = None
    transform: Callable[[Any], Any] | None = None
    tokenizer: Callable[[Any], Any] | None = None
    ledger: Path | None = None
    where: str | None = None

    def __post_init__(self) -> None:
        if self.end not in ("repeat", "stop"):
            raise FeedError(f'end is {self.end!r}; choose "repeat" or "stop"')
        try:
            object.__setattr__(self, "weight", float(self.weight))
        except (TypeError, ValueError):
            raise FeedError(f"a weight is {self.weight!r}; it must be a number above 0") from None


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
    drop_last: bool = False,
    epoch_samples: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    options: FeedOptions | None = None,
) -> Loader:
    """Return a feed of batches for any training loop, in place of a DataLoader.

    Each sample is given once in an epoch, and all ranks get the same number of batches. Each ``iter()`` begins the next
    epoch; ``set_epoch`` chooses one. ``state_dict()`` is small, the same on all ranks, and JSON: with
    ``load_state_dict`` any number of ranks, of any batch size and number of decoders, continues after the batch that was
    given last. The rest of an epoch then gives each sample once that has not been given.

    A sample that cannot be read or decoded keeps its place in the order; a sample of the next batch takes it, so that
    batches stay equal, and is counted as repeated. A rank whose last samples are all damaged gives the first valid ones
    of the epoch instead. If a resume leaves fewer samples than ranks, the others' epoch
    has ended; if torch.distributed connects them, they get one that another rank gets too, and take the same steps.

    Args:
        shards: a pattern such as "shards/{000..099}.tar" or "s3://bucket/*.tar", several, or for a mix a dict from
            patterns to weights, or to ``WeightedSource``.
        batch_size: samples of a batch of one rank. The last two batches of an epoch may be smaller.
        fields: what a batch consists of. The first field of pictures ("jpg;png;webp", alternatives) is the image, the first
            of texts ("txt", "json:caption", "txt|json:alt") the caption. Others are "__key__", "__url__", and members:
            "cls" is a number, "json" an object, "npy" an array, anything else bytes. A dict of names to fields gives
            batches that are dicts.
        map: makes a sample, from a dict of "__key__", "__url__" and the bytes of all members, instead of ``fields``. What it
            returns for the samples is joined to tensors, in tuples, lists and dicts by part.
        transform: from a PIL image to a tensor: OpenCLIP's, torchvision's, or any function; None gives RGB arrays.
        tokenizer: from a list of n captions to n rows, or from one caption to one row; None leaves captions as texts.
        shuffle: True draws each sample from a buffer of 5,000 of all ranks together; a number is the size of that buffer.
            Shards are shuffled as well, and up to 48 are read side by side. False, or 0, gives shards and samples in their
            order.
        seed: of the order, and of random transforms, which are seeded for each sample.
        ledger: folder that ``wdsflow measure`` or ``filter`` wrote, for ``where``.
        where: give only samples that this predicate keeps: "clip_similarity > 0.28".
        drop_last: leave out the last batches that are smaller. Without it batches of the last step may differ by one sample
            between ranks, which losses that gather tensors of all ranks do not allow.
        epoch_samples: samples of an epoch, of all ranks; None: all of one source; of several, until each that may repeat
            has been given once, or the first with ``end="stop"`` has.
        rank: of this process; None: from RANK and WORLD_SIZE, as torchrun sets them, or else from torch.distributed,
            which must be set up before, or else from mpirun or srun. Give both ``rank`` and ``world_size``, or neither.
        world_size: number of ranks, likewise.
        options: settings that are not named here: decoders, memory, stall_after, metrics.

    Returns:
        An iterable of batches, a ``torch.utils.data.IterableDataset`` with a length: lists of columns, images float32
        (n, 3, height, width) for a known transform.

    Raises:
        FeedError: an argument is wrong, the memory is too little, or nothing is left for a rank.
        ShardsError: a ValueError; the shards do not exist, or no sample has all fields.
        SubsetError: a ValueError; a ledger does not fit its shards.

    While it runs, it raises StallError instead of waiting forever, with the reason and what helps.
    """
    given = dict(locals())  # a copy: debuggers add to it
    try:
        batch_size, seed = whole("batch_size", batch_size, 1), whole("seed", seed)
        buffer = _shuffle_buffer(shuffle)
        epoch_samples = None if epoch_samples is None else whole("epoch_samples", epoch_samples, 1)
        here = _place(rank, world_size)
    except (TypeError, ValueError) as error:
        raise FeedError(str(error)) from None
    if drop_last not in (True, False):
        raise FeedError(f"drop_last is {drop_last!r}; it must be True or False")
    usual = WeightedSource(fields=fields, map=map, transform=transform, tokenizer=tokenizer, ledger=ledger, where=where)
    options = replace(_checked(FeedOptions() if options is None else options), fields=_named(fields))
    try:
        opened = [_open(data, source, here, options) for data, source in _sources(shards, usual)]
        _check_together(opened)
        order = BalancedOrder(
            [each.mixed for each in opened],
            place=here,
            batch_size=batch_size,
            seed=seed,
            last="drop" if drop_last else "exact",
            together=talks(),
            memory=options.memory_bytes,
            length=epoch_samples,
            shuffled=buffer > 0,
        )
        if not order.num_batches:
            raise FeedError(
                f"drop_last=True leaves no batch: an epoch of {how_many(order.length, 'sample')} is less than "
                f"batch_size={batch_size} for {how_many(here.world_size, 'rank')}; use smaller batches, or drop_last=False"
            )
        _report_length(order, opened, given=epoch_samples is not None)
        made = _loader(order, opened, options, shuffle=buffer, found=rank is None)
        made.again = partial(feed, **given | here._asdict())
        return made
    except ValueError as error:
        if isinstance(error, FeedStopped):
            raise
        raise FeedError(str(error)) from None


def _shuffle_buffer(shuffle: int | bool) -> int:
    """Return the samples from which the next one is drawn; 0: samples keep their order. Raises TypeError, ValueError."""
    if isinstance(shuffle, bool):
        return _SHUFFLE if shuffle else 0
    try:
        return whole("shuffle", shuffle, 0)
    except (TypeError, ValueError) as error:
        reason = f"shuffle is {shuffle!r}; it must be True, False, or the size of the shuffle buffer in samples"
        raise type(error)(reason) from None


def _place(rank: int | None, world_size: int | None) -> RankPlace:
    if rank is None or world_size is None:
        if rank is not None or world_size is not None:
            raise FeedError(f"rank is {rank} and world_size is {world_size}: give both, or neither")
        return place()
    given = RankPlace(whole("rank", rank), whole("world_size", world_size, 1))
    if not 0 <= given.rank < given.world_size:
        raise FeedError(f"rank is {rank}; with world_size={world_size} it must be 0 to {world_size - 1}")
    return given


@dataclass(frozen=True)
class _Opened:
    """A source whose samples have been counted."""

    data: str  # as the user named it
    mixed: MixedSource
    source: FeedSource
    identity: dict[str, object]


def _loader(
    order: BalancedOrder, opened: Sequence[_Opened], options: FeedOptions, *, shuffle: int, found: bool
) -> Loader:
    recipe = FeedRecipe(
        order=order,
        sources=tuple(each.source for each in opened),
        batch_size=min(order.batch_size, -(-order.length // order.place.world_size)),
        options=options,
        place=order.place,
        seed=order.seed,
        trains=True,
        shuffle=order.shuffle(shuffle),
        processes=decoders_for(options.decoders),
        data="::".join(each.data for each in opened),
        found=found,
    )
    identity: dict[str, object] = {
        "schedule": order.name,
        "seed": order.seed,
        "shuffle": shuffle,
        "lanes": order.most_streams,
        "samples": order.length,
        "last": order.last,
    }
    return Loader(recipe, 0, identity | {f"source {number}": each.identity for number, each in enumerate(opened)})


def _sources(
    shards: Shards | Mapping[str, float | WeightedSource], usual: WeightedSource
) -> list[tuple[Shards, WeightedSource]]:
    """Return the sources with their shards; what one leaves open is as usual."""
    if not isinstance(shards, Mapping):
        return [(shards, usual)]
    if not shards:
        raise FeedError("shards is empty: name at least one pattern")
    found: list[tuple[Shards, WeightedSource]] = []
    for pattern, value in shards.items():
        own = value if isinstance(value, WeightedSource) else WeightedSource(weight=value)
        names = ("map", "transform", "tokenizer", "ledger", "where")
        open_ones = {name: getattr(usual, name) for name in names if getattr(own, name) is None}
        if own.fields is not None:
            open_ones.pop("map", None)  # its own fields are not made by the map of the others
        found.append((pattern, replace(own, **{"fields": own.fields or usual.fields, **open_ones})))
    return found


def _checked(options: FeedOptions) -> FeedOptions:
    plain = FeedOptions()
    if not isinstance(options, FeedOptions):
        raise FeedError(f"options is {options!r}; give wdsflow.FeedOptions(...)")
    for name, instead in (("caption", "fields"), ("image", "fields"), ("schedule", "shuffle"), ("ledger", "ledger")):
        if getattr(options, name) != getattr(plain, name):
            raise FeedError(f"options has {name}={getattr(options, name)!r}; wdsflow.feed takes {instead}= for that")
    return options


def _named(fields: Fields | None) -> tuple[str, ...]:
    """Return the fields alone, in their order. Raises FeedError."""
    given: object = (
        fields.values() if isinstance(fields, Mapping) else [fields] if isinstance(fields, str) else fields or ()
    )
    if not isinstance(given, Iterable) or not all(isinstance(each, str) for each in given):
        raise FeedError(f'fields is {fields!r}; name what a batch consists of, such as ("jpg;png;webp", "txt")')
    return tuple(given)


def _open(shards: Shards, source: WeightedSource, here: RankPlace, options: FeedOptions) -> _Opened:
    """Count the usable samples of a source, and describe how they are made."""
    fields = source.fields or ()
    for name in ("map", "transform", "tokenizer"):
        if (code := getattr(source, name)) is not None and not callable(code):
            raise FeedError(f"{name} is {code!r}; it must be a function, or None")
    if not isinstance(source.where, str | None):
        raise FeedError(f'where is {source.where!r}; it must be a predicate such as "clip_similarity > 0.28"')
    ledger = None if source.ledger is None else os.fspath(source.ledger)
    own = replace(options, ledger=ledger, where=source.where, fields=_named(fields))
    columns = Columns((), None, order=(0,), map=source.map) if source.map else parse_fields(fields)
    made = FeedSource.of(columns, source.transform or as_rgb, source.tokenizer, own, options.max_pixels)
    catalog = made.catalog
    named = [shards] if isinstance(shards, str | os.PathLike) else shards
    try:
        patterns = [os.fspath(each) for each in named]
    except TypeError:
        raise FeedError(f"shards is {shards!r}; name a pattern, several, or a dict from patterns to weights") from None
    if not any(patterns):
        raise FeedError("shards is empty: name at least one pattern")
    urls, data = shard_list(patterns, own), redact("::".join(patterns))
    subset = None
    if ledger is not None:
        subset = Subset(urls, None, here, own, data)
        urls, catalog.view = subset.urls, subset.view
    counts = count_samples(catalog, urls, here, own)
    if not sum(counts):
        raise nothing_usable(catalog, urls, here, own)
    digest = blake2b(digest_size=8)
    for url, count in zip(urls, counts, strict=True):
        digest.update(f"{os.path.basename(url)} {count}\n".encode(errors="surrogatepass"))
    identity: dict[str, object] = {
        "shards": len(urls),
        "samples": sum(counts),
        "names and counts": digest.hexdigest(),
        "weight": float(source.weight),
        "end": source.end,
        "fields": "map" if source.map else list(own.fields),
        "where": source.where,
        "kept samples": subset.digest if subset else None,
    }
    mixed = MixedSource(tuple(zip(urls, counts, strict=True)), source.weight, source.end == "stop")
    return _Opened(data, mixed, made, identity)


def _check_together(opened: Sequence[_Opened]) -> None:
    """Raise FeedError if sources make no mix; warn of shards in several of them."""
    weights = [each.mixed.weight for each in opened]
    if not sum(weights) < inf or min(weights) <= 0:
        raise FeedError(f"weights are {', '.join(map(str, weights))}; each must be above 0")

    def layout(one: Columns) -> tuple[object, ...]:
        return one.map is not None, one.names, [min(number, 0) for number in one.order]

    if any(layout(each.source.columns) != layout(opened[0].source.columns) for each in opened):
        raise FeedError(
            "the sources have fields that make no common batch: give each the same number of fields, with image and caption "
            "at the same places, or a map that returns the same"
        )
    _report_overlap(opened)


def _report_length(order: BalancedOrder, opened: Sequence[_Opened], *, given: bool) -> None:
    """Warn of an epoch that a source of small weight makes long, because it is given in full."""
    every = sum(each.mixed.samples for each in opened)
    if not given and order.length > _LONG * every:
        ending = [each for each in opened if each.mixed.ends]  # the first of them ends the epoch
        last = (min if ending else max)(ending or opened, key=lambda each: each.mixed.samples / each.mixed.weight)
        until = f"it lasts until {escape(last.data, 100)}, of weight {last.mixed.weight:g}, has been given"
        long = f"an epoch has {order.length:,} samples, of {every:,}: {until}"
        say(WARNING, f"feed: {long}. For a shorter one, set epoch_samples={every}")


def _report_overlap(opened: Iterable[_Opened]) -> None:
    """Warn of shards that are in several sources: their samples are given more often than the weights say."""
    used: defaultdict[str, set[str]] = defaultdict(set)
    for each in opened:
        for url, _ in each.mixed.shards:
            path = url.path
            used[os.path.realpath(path) if path else url].add(each.data)
    twice = {shard: sources for shard, sources in used.items() if len(sources) > 1}
    if twice:
        shard, sources = next(iter(twice.items()))
        of = " and ".join(escape(each, 100) for each in sorted(sources))
        say(WARNING, f"feed: {how_many(len(twice), 'shard')} in several sources, first: {escape(shard, 200)} in {of}")
