"""The error for shards of which no sample can be used."""

from collections.abc import Sequence
from itertools import chain, islice

from wdsflow.shards.shard import Shard
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import FeedOptions, ShardsError
from wdsflow.training.ranks import JobRank
from wdsflow.training.stalls.loss_tally import FeedLoss, LossTally
from wdsflow.training.stalls.stall import stall_message

from .sample_catalog import Catalog

# Samples whose fields are reported.
_LOOKED_AT = 100


def nothing_usable_error(
    catalog: Catalog, urls: Sequence[Shard], job_rank: JobRank, options: FeedOptions
) -> ShardsError:
    """Return the error for shards without a usable sample.

    It lists other fields that may hold what is missing.
    """
    tally = LossTally()
    catalog.on_damage = tally.add_damage
    samples = chain.from_iterable(catalog.samples_without_content(url) for url in urls)
    for item in islice(samples, _LOOKED_AT):
        if isinstance(item, FeedLoss):
            tally.add_loss(item)
            tally.count_fields(tuple(item.detail.split(", ")))
    required = catalog.requirements()
    what = f"none of the samples in {how_many(len(urls), 'shard')} has {' and '.join(required)}"
    if tally.fields and required[-1] not in ("an image", "a caption"):
        first = next(iter(tally.fields))
        what += f"; the first has {', '.join(first)}"
    return ShardsError(
        stall_message(
            tally=tally,
            rank=job_rank.rank,
            world_size=job_rank.world_size,
            options=options,
            event=what,
        )
    )
