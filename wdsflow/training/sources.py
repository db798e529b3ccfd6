"""The sources of a feed: opened, counted, and checked together."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from logging import WARNING
from math import inf
from typing import Any, Literal

from wdsflow.text.secrets import redact
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from .columns import FeedColumns, UserMap, parse_fields
from .feed.catalog.nothing_usable import nothing_usable_error
from .feed.catalog.shard_lists import shard_list_of_ranks
from .feed.join.check_join import count_and_check_join
from .feed.join.open_join import open_join
from .feed.recipe import FeedSource
from .feed.resume.shard_facts import counted_shards
from .feed.subset.subset import Subset
from .feed_options import FeedError, FeedOptions
from .orders.balanced import BalancedOrder
from .orders.mixed_streams import MixedSource
from .pixels.image_work import as_rgb
from .ranks import JobRank
from .stalls.loss_tally import log_or_print

Fields = Sequence[str] | Mapping[str, str]
Path = str | os.PathLike[str]
Shards = Path | Sequence[Path]
FieldsToSet = Mapping[str, str] | Sequence[str]

# Times the samples of all sources, from which on an epoch is worth a warning.
_LONG = 20
# What sources of a mix have in common, unless they say otherwise.
_SHARED = "fields map transform tokenizer ledger where join join_on join_set caption_probs".split()


@dataclass(frozen=True, kw_only=True)
class WeightedSource:
    """One source of a mixed feed: its weight, and settings that differ from those of the feed.

    None: the setting of the feed.

    ``end``: "repeat" gives its samples again while the epoch lasts; "stop" ends the epoch when all
    have been given.
    """

    weight: float = 1.0
    end: Literal["repeat", "stop"] = "repeat"
    fields: Fields | None = None
    map: UserMap | None = None
    transform: Callable[[Any], Any] | None = None
    tokenizer: Callable[[Any], Any] | None = None
    ledger: Path | None = None
    where: str | None = None
    join: Path | None = None
    join_on: str | None = None
    join_set: FieldsToSet | None = None
    caption_probs: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if self.end not in ("repeat", "stop"):
            raise FeedError(f'end is {self.end!r}; choose "repeat" or "stop"')
        try:
            object.__setattr__(self, "weight", float(self.weight))
        except (TypeError, ValueError):
            raise FeedError(f"a weight is {self.weight!r}; it must be a number above 0") from None


@dataclass(frozen=True)
class OpenedSource:
    """A source whose samples have been counted."""

    # As the user named it.
    data: str
    mixed: MixedSource
    source: FeedSource
    identity: dict[str, object]


def sources_with_shards(
    shards: Shards | Mapping[str, float | WeightedSource], usual: WeightedSource
) -> list[tuple[Shards, WeightedSource]]:
    """Return the sources with their shards; what one leaves open is as usual."""
    if not isinstance(shards, Mapping):
        return [(shards, usual)]
    if not shards:
        raise FeedError("shards is empty: name at least one pattern")
    return [(pattern, _with_usual(value, usual)) for pattern, value in shards.items()]


def _with_usual(value: float | WeightedSource, usual: WeightedSource) -> WeightedSource:
    """Return a source of a mix with what it leaves open as usual."""
    source = value if isinstance(value, WeightedSource) else WeightedSource(weight=value)
    usual_parts: dict[str, Any] = {}
    for name in _SHARED:
        if getattr(source, name) is None:
            usual_parts[name] = getattr(usual, name)
    if source.fields is not None:
        # Its own fields are not made by the map of the others.
        usual_parts.pop("map", None)
    return replace(source, **usual_parts)


def field_names(fields: Fields | None) -> tuple[str, ...]:
    """Return the fields alone, in their order. Raises FeedError."""
    given: object = fields or ()
    if isinstance(fields, Mapping):
        given = fields.values()
    elif isinstance(fields, str):
        given = [fields]
    if not isinstance(given, Iterable) or not all(isinstance(name, str) for name in given):
        raise FeedError(
            f'fields is {fields!r}; name what a batch consists of, such as ("jpg;png;webp", "txt")'
        )
    return tuple(given)


def open_source(
    shards: Shards, source: WeightedSource, job_rank: JobRank, options: FeedOptions
) -> OpenedSource:
    """Count the usable samples of a source, and describe how they are made."""
    _check(source)
    options = _options_of(source, options)
    columns = _columns_of(source).weighted(options.weights)
    join = open_join(options, columns.captions)
    joined = None if join is None else join.fields
    transform = source.transform or as_rgb
    feed_source = FeedSource.of(
        columns, transform, source.tokenizer, options, options.max_pixels, joined
    )
    patterns = _patterns(shards)
    urls = shard_list_of_ranks(patterns, options, job_rank)
    data = redact("::".join(patterns))
    catalog = feed_source.catalog
    subset: Subset | None = None
    if options.ledger is not None:
        subset = Subset(urls, None, job_rank, options, data)
        urls = subset.urls
        catalog.view = subset.view
    if join is not None:
        join.find_key_prefixes(urls)
    counts = count_and_check_join(catalog, urls, job_rank, options)
    if not sum(counts):
        raise nothing_usable_error(catalog, urls, job_rank, options)
    identity: dict[str, object] = {
        "shards": counted_shards(urls, counts),
        "weight": float(source.weight),
        "end": source.end,
        "fields": "map" if source.map else list(options.fields),
        "caption probs": options.caption_probs,
        "where": source.where,
        "kept samples": subset.digest if subset else None,
        "join": joined.identity() if joined else None,
    }
    shards_with_counts = tuple(zip(urls, counts, strict=True))
    mixed = MixedSource(shards_with_counts, source.weight, ends=source.end == "stop")
    return OpenedSource(data, mixed, feed_source, identity)


def _options_of(source: WeightedSource, options: FeedOptions) -> FeedOptions:
    """Return the options of a feed with those of one source."""
    return replace(
        options,
        ledger=None if source.ledger is None else os.fspath(source.ledger),
        where=source.where,
        fields=field_names(source.fields or ()),
        join=source.join,
        join_on=source.join_on or options.join_on,
        join_set=source.join_set or (),
        caption_probs=source.caption_probs,
    )


def _columns_of(source: WeightedSource) -> FeedColumns:
    """Return what a batch consists of: what a map returns, or columns of fields."""
    if source.map:
        return FeedColumns((), None, order=(0,), map=source.map)
    return parse_fields(source.fields or ())


def _check(source: WeightedSource) -> None:
    for name in ("map", "transform", "tokenizer"):
        code = getattr(source, name)
        if code is not None and not callable(code):
            raise FeedError(f"{name} is {code!r}; it must be a function, or None")
    if not isinstance(source.where, str | None):
        raise FeedError(
            f'where is {source.where!r}; it must be a predicate such as "clip_similarity > 0.28"'
        )


def _patterns(shards: Shards) -> list[str]:
    several = [shards] if isinstance(shards, str | os.PathLike) else shards
    try:
        patterns = [os.fspath(pattern) for pattern in several]
    except TypeError:
        raise FeedError(
            f"shards is {shards!r}; name a pattern, several, or a dict from patterns to weights"
        ) from None
    if not any(patterns):
        raise FeedError("shards is empty: name at least one pattern")
    return patterns


def check_mix(opened: Sequence[OpenedSource]) -> None:
    """Raise FeedError if sources make no mix; warn of shards in several of them."""
    weights = [source.mixed.weight for source in opened]
    if not sum(weights) < inf or min(weights) <= 0:
        raise FeedError(f"weights are {', '.join(map(str, weights))}; each must be above 0")

    layouts = [_layout(source.source.columns) for source in opened]
    if any(layout != layouts[0] for layout in layouts):
        raise FeedError(
            "the sources have fields that make no common batch: give each the same number of fields, with image and caption "
            "at the same places, or a map that returns the same"
        )
    _warn_of_overlap(opened)


def _layout(columns: FeedColumns) -> tuple[object, ...]:
    """Return the part of the columns that must be the same in all sources.

    Image and caption are numbers below 0. Other numbers may differ.
    """
    positions = [min(number, 0) for number in columns.order]
    return columns.map is not None, columns.names, positions


def warn_of_long_epoch(
    order: BalancedOrder, opened: Sequence[OpenedSource], *, given: bool
) -> None:
    """Warn of an epoch that a source of small weight makes long, because it is given in full.

    ``given``: the length of the epoch was given by the user.
    """
    samples = sum(source.mixed.samples for source in opened)
    if given or order.length <= _LONG * samples:
        return
    last = _source_that_ends_epoch(opened)
    name, weight = escape(last.data, 100), last.mixed.weight
    reason = f"it lasts until {name}, of weight {weight:g}, has been given"
    length = f"an epoch has {order.length:,} samples, of {samples:,}"
    log_or_print(
        WARNING,
        f"feed: {length}: {reason}. For a shorter one, set epoch_samples={samples}",
    )


def _source_that_ends_epoch(opened: Sequence[OpenedSource]) -> OpenedSource:
    """Return the source whose last sample ends the epoch.

    This is the first source to end with "stop". Without one, it is the last source that repeats.
    """

    def rounds(source: OpenedSource) -> float:
        return source.mixed.samples / source.mixed.weight

    ending = [source for source in opened if source.mixed.ends]
    if ending:
        return min(ending, key=rounds)
    return max(opened, key=rounds)


def _warn_of_overlap(opened: Iterable[OpenedSource]) -> None:
    """Warn of shards that are in several sources.

    Their samples are given more often than the weights say.
    """
    used: defaultdict[str, set[str]] = defaultdict(set)
    for source in opened:
        for url, _ in source.mixed.shards:
            path = url.path
            used[os.path.realpath(path) if path else url].add(source.data)
    shared = [(shard, sources) for shard, sources in used.items() if len(sources) > 1]
    if shared:
        shard, sources = shared[0]
        first = escape(shard, 200)
        names = " and ".join(escape(name, 100) for name in sorted(sources))
        count = how_many(len(shared), "shard")
        log_or_print(WARNING, f"feed: {count} in several sources, first: {first} in {names}")
