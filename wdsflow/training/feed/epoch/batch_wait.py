"""The wait for the next batch, and the errors in which it may end, on all ranks."""

import time
from collections.abc import Sequence
from functools import partial
from itertools import islice

from wdsflow.training.feed.recipe import FeedRecipe
from wdsflow.training.feed_options import DecoderError, FeedStopped, SampleError
from wdsflow.training.sample_tasks import HangingShard
from wdsflow.training.stalls.hanging import BusyDecoder
from wdsflow.training.stalls.loss_tally import LossTally
from wdsflow.training.stalls.progress import Progress
from wdsflow.training.stalls.stall import StallError, WorkerFacts, rank_name, stall_message
from wdsflow.training.stalls.watchdog import Watchdog

from .epoch_run import EpochRun, Ready
from .losses import StarvedError


class BatchWait:
    """Waits for batches.

    An error is sent to the other ranks before it is raised on this one.

    ``seconds``: that training has waited so far.

    Args:
        recipe: of the feed.
        tally: samples kept and lost so far.
        progress: reports long waits.
        watchdog: knows the errors of the other ranks, and how long a wait may take.
    """

    def __init__(
        self, recipe: FeedRecipe, tally: LossTally, progress: Progress, watchdog: Watchdog
    ) -> None:
        self.seconds = 0.0
        self._recipe, self._tally = recipe, tally
        self._progress, self._watchdog = progress, watchdog

    def listen(self) -> None:
        """Listen to the other ranks, if not done already."""
        self._watchdog.start()

    def next(self, run: EpochRun, epoch: int) -> Ready | None:
        """Return the next batch of a run, None after the last.

        Raises StallError if none comes, or if another rank has failed; SampleError and DecoderError
        with the name of this rank; and any other error of the run.
        """
        started = time.perf_counter()
        try:
            with self._watchdog.waiting(lambda waited: self._stall(run, epoch, waited=waited)):
                return run.next(partial(self._check, run))
        except StallError:
            raise
        except StarvedError as error:
            raise self._send_error(self._stall(run, epoch, starved=error)) from None
        except (DecoderError, SampleError) as error:
            raise self.send_as_this_rank(error) from error.__cause__
        except Exception as error:
            self._watchdog.send_failure(error)
            raise
        finally:
            self.seconds += time.perf_counter() - started

    def send_no_batch_error(self, run: EpochRun, epoch: int) -> FeedStopped:
        """Return the error for an epoch that ended without a batch; all ranks get it."""
        return self._send_error(self._stall(run, epoch))

    def send_as_this_rank(self, error: FeedStopped) -> FeedStopped:
        """Return an error with the name of this rank; all ranks get it."""
        return self._send_error(type(error)(f"{rank_name(*self._recipe.job_rank)}: {error}"))

    def _send_error(self, error: FeedStopped) -> FeedStopped:
        """Send an error to all ranks; return it."""
        self._watchdog.send_failure(error)
        return error

    def _check(self, run: EpochRun, waited: float) -> None:
        """Check for errors of other ranks, and report a long wait."""
        if run.planner is None:
            # It is still skipping the samples that were yielded before the state was saved.
            self._watchdog.restart_wait()
        self._watchdog.check()
        self._progress.wait(waited, self._tally, self.seconds)

    def _stall(
        self,
        run: EpochRun,
        epoch: int,
        *,
        waited: float | None = None,
        starved: StarvedError | None = None,
    ) -> StallError:
        """Return the error for a run that gives no batch.

        Args:
            run: of the epoch.
            epoch: its number.
            waited: seconds without a batch; None if the run has ended.
            starved: why no batch can be filled, if that is clear.
        """
        recipe = self._recipe
        busy: Sequence[BusyDecoder] = ()
        reading: list[HangingShard] = []
        if waited is not None:
            # What has been at one sample for half of the time is to blame.
            busy = run.decoders.busy(waited / 2)
            for source in recipe.sources:
                reading += source.catalog.hanging_shards(waited / 2)
        message = stall_message(
            tally=self._tally.copy(),
            worker=_worker_facts(recipe, run, epoch, starved),
            waited=waited,
            lost_in_a_row=None if starved is None else starved.in_a_row,
            rank=recipe.job_rank.rank,
            world_size=recipe.job_rank.world_size,
            options=recipe.options,
            busy=busy,
            reading=reading,
            data=recipe.data,
        )
        return StallError(message)


def _worker_facts(
    recipe: FeedRecipe, run: EpochRun, epoch: int, starved: StarvedError | None
) -> WorkerFacts | None:
    """Return the shards of the stream that has too few samples.

    Without such a stream, those of the stream that the next batch comes from. None if there are
    several.
    """
    order = recipe.order
    usable = 0
    passes = 0
    if starved is not None:
        stream = starved.stream
        usable = starved.usable
        # It was read once from its beginning to its end, unless it was given up in the middle.
        passes = int(starved.in_a_row is None)
    else:
        stream = None if run.planner is None else run.planner.awaited_stream
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
