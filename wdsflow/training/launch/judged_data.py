"""Scanned shards, judged for our feed: the verdict, and the forecast of the run."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from wdsflow.joining.joined_fields import JoinedFields
from wdsflow.readers.base import Options, split_names
from wdsflow.readers.installed_versions import versions
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.sidecars import Sidecars, read_sidecars
from wdsflow.readers.open_clip.versions import FeedReader
from wdsflow.stages.caption_sources import Captions
from wdsflow.stages.caption_text import JsonText
from wdsflow.training.feed_options import FeedOptions
from wdsflow.validate.feed_verdict import feed_forecast
from wdsflow.validate.rules.kit.base import Context
from wdsflow.validate.verdicts.judge import judge

from .scanned_data import ScannedData


@dataclass(frozen=True)
class JudgedData:
    """The shards of ``--train-data`` or ``--val-data``, judged.

    Attributes:
        context: the evidence, the feed as its only reader, the verdict, and perhaps a forecast.
        options: settings of the feed.
        captions: where the feed looks for captions.
        kept: a line on the share of samples that a ledger keeps; "" without one.
        join: the join of a table; None without one.
    """

    context: Context
    options: FeedOptions
    captions: Captions
    kept: str
    join: JoinedFields | None


def judge_data(
    data: ScannedData, arguments: Arguments, options: FeedOptions, *, trains: bool
) -> JudgedData:
    """Judge the shards.

    There is a forecast if workers fill batches from their own shards and all of these were scanned.
    """
    reader = _feed_reader(data.captions, arguments, options)
    # Files next to the shards do not describe the samples that a ledger keeps.
    urls = [shard.url for shard in data.evidence.shards]
    sidecars = Sidecars() if data.kept else read_sidecars(urls, data.evidence)
    context = Context(
        # At "names" F101 would advise a deeper check, which is done here.
        replace(data.evidence, level="headers"),
        [reader],
        [judge(data.evidence, reader)],
        urls=(arguments.train_data or "",),
        sidecars=sidecars,
        environment=versions(),
    )
    # Weights belong to patterns, which also match shards of which nothing is kept.
    is_weighted_part = data.kept and arguments.train_data_upsampling_factors
    is_whole_run = trains and data.all_scanned and not is_weighted_part
    if is_whole_run and options.workers_have_shards:
        trained, outlook = feed_forecast(
            data.evidence, reader, context.verdicts[0], arguments, sidecars
        )
        context = replace(context, arguments=trained, forecasts=(outlook,))
    return JudgedData(context, options, data.captions, data.kept, data.join)


def _feed_reader(captions: Captions, arguments: Arguments, options: FeedOptions) -> FeedReader:
    """Return the feed, with the fields that this run reads."""
    keys = split_names(options.image or arguments.image_key)
    images = tuple(name.lower() for name in keys)
    reads = Options(
        image_key=";".join(images),
        text_key=";".join(captions.members),
        json_text_key=";".join(_names_in_json(captions)),
        seed=arguments.seed,
        workers=arguments.workers,
        world_size=arguments.world_size,
        resampled=arguments.dataset_resampled,
    )
    return FeedReader(reads, images, captions.members)


def _names_in_json(captions: Captions) -> Iterable[str]:
    """Yield the names in json that may hold captions."""
    for source in captions.sources:
        if isinstance(source, JsonText):
            yield from source.json_text_key
