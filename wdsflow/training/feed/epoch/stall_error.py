"""The error of a feed that has no next batch, with what each of its parts is at."""

from collections.abc import Sequence
from itertools import islice

from wdsflow.training.feed.recipe import FeedRecipe
from wdsflow.training.sample_tasks import Reading
from wdsflow.training.stalls.field_fixes import BusyWith
from wdsflow.training.stalls.loss_tally import LossTally
from wdsflow.training.stalls.stall import StallError, WorkerFacts, stall_message

from .epoch_run import EpochRun
from .losses import StarvedError


def stall_error(
    recipe: FeedRecipe,
    run: EpochRun,
    epoch: int,
    tally: LossTally,
    *,
    waited: float | None,
    starved: StarvedError | None,
) -> StallError:
    """Return the error for a run that gives no batch.

    Args:
        recipe: of the feed.
        run: of the epoch.
        epoch: its number.
        tally: samples kept and lost so far.
        waited: seconds without a batch; None if the run has ended.
        starved: why no batch can be filled, if that is known.
    """
    busy: Sequence[BusyWith] = ()
    reading: list[Reading] = []
    if waited is not None:
        # What has been at one sample for half of the time is to blame.
        busy = run.decoders.busy(waited / 2)
        for source in recipe.sources:
            reading += source.catalog.reading(waited / 2)
    message = stall_message(
        tally=tally,
        worker=_facts(recipe, run, epoch, starved),
        waited=waited,
        lost_in_a_row=None if starved is None else starved.in_a_row,
        rank=recipe.place.rank,
        world_size=recipe.place.world_size,
        options=recipe.options,
        busy=busy,
        reading=reading,
        data=recipe.data,
    )
    return StallError(message)


def _facts(
    recipe: FeedRecipe, run: EpochRun, epoch: int, starved: StarvedError | None
) -> WorkerFacts | None:
    """Return the shards of the stream that has too few samples, or that the next batch comes from; None if several."""
    order = recipe.order
    usable = 0
    passes = 0
    if starved is not None:
        stream = starved.stream
        usable = starved.usable
        # It was read once from its beginning to its end, unless it was given up in the middle.
        passes = int(starved.in_a_row is None)
    else:
        stream = None if run.planner is None else run.planner.awaited
    if stream is None:
        return None
    shards = list(dict.fromkeys(islice(order.shards_of(epoch, stream), order.shards)))
    return WorkerFacts(
        number=stream.number,
        shards=order.shards if order.endless else len(shards),
        shard=shards[0] if shards else "",
        usable=usable,
        batch_size=recipe.order.batch_size,
        passes=passes,
        workers=order.streams,
    )
