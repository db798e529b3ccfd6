"""The loader that training iterates over: batches, their number, and a state to resume from.

Imports torch.
"""

import inspect
import logging
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from wdsflow.training.feed_options import FeedStopped, whole_number
from wdsflow.training.ranks import cores_for_rank
from wdsflow.training.stalls.loss_tally import log_or_print
from wdsflow.training.stalls.progress import Progress
from wdsflow.training.stalls.stall import StallError, rank_name
from wdsflow.training.stalls.watchdog import Watchdog
from wdsflow.training.workers.decoder_process import kill_decoders

from .callers import check_caller, check_process
from .epoch.batch_wait import BatchWait
from .epoch_pass import EpochPass, StartedEpoch
from .feed import Feed
from .headspace import Headspace, measure_headspace
from .recipe import FeedRecipe
from .resume.position import FeedPosition


class Loader(torch.utils.data.IterableDataset[Any]):
    """Iterates over one epoch at a time, as OpenCLIP's training and evaluation do.

    Each iteration over training data begins the next epoch, with other shards first, other batches
    and other crops. ``set_epoch`` selects the epoch, as OpenCLIP's loop does. An iteration from
    which one batch was taken is a look and does not count. An iteration that ends early, after two
    batches or more, counts.

    ``num_batches`` and ``num_samples``: of an epoch, as OpenCLIP counts them. ``tally``: counts of
    samples kept and lost. Batches are views of memory that is reused once nothing references them.
    Raises StallError if training would hang, SampleError if the user's transform or tokenizer
    fails, and DecoderError if a decoding process is killed: all are ``FeedStopped``.
    """

    def __init__(self, recipe: FeedRecipe, epoch: int, identity: Mapping[str, object]) -> None:
        order = recipe.order
        self.num_batches = order.num_batches
        self.num_samples = order.num_samples
        self.batch_size = order.batch_size
        self._recipe = recipe
        self._identity = identity
        self._feed = Feed(recipe)
        self.tally = self._feed.tally
        self._position = FeedPosition(recipe, identity, epoch, self._feed.memory_limits)
        self._watchdog = Watchdog(recipe.options.stall_after, kill_decoders)
        self._progress = _progress(recipe)
        self._wait = BatchWait(recipe, self.tally, self._progress, self._watchdog)
        # Of a loader that is not closed: no thread and no process refers to it.
        for abandon in (self._watchdog.abandon, self._feed.abandon):
            weakref.finalize(self, abandon).atexit = False
        self.headroom: Headspace | None = None
        # Makes this feed in another process.
        self.make_again: Callable[[], Loader] | None = None

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration begins, or continues if a state has been loaded."""
        return self._position.epoch

    @property
    def waited(self) -> float:
        """Seconds that training waited for batches."""
        return self._wait.seconds

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration begin this epoch.

        If a state of this epoch was loaded, the iteration continues after that state.

        An iteration that has not yielded a batch yet also begins this epoch.
        """
        self._position.set_epoch(whole_number("epoch", epoch, 0))

    def __len__(self) -> int:
        """Return the number of batches.

        Raises TypeError if it is unknown: evaluation without ``val_num_samples``.
        """
        if not self.num_batches:
            raise TypeError("the number of batches is unknown: set val_num_samples")
        return self.num_batches

    def __repr__(self) -> str:
        """Return the size of an epoch and the progress of this one.

        ``given`` counts the samples of all ranks.
        """
        recipe, order, state = self._recipe, self._recipe.order, self.state_dict()
        step_of_all_ranks = self.batch_size * recipe.job_rank.world_size
        shuffle = self._identity["shuffle"]
        # Otherwise the buffers of OpenCLIP's loader.
        if not isinstance(shuffle, int):
            shuffle = recipe.shuffle.samples if recipe.shuffle else 0
        facts: dict[str, object] = {
            "samples": order.num_samples,
            "shards": order.shards,
            "batch_size": self.batch_size,
            "batches": self.num_batches,
            **recipe.job_rank._asdict(),
            "schedule": order.name,
        }
        if order.weights:
            facts["weights"] = list(order.weights)
        facts |= {
            "shuffle": shuffle,
            "seed": recipe.seed,
            "fields": recipe.sources[0].columns.fields,
            "epoch": state["epoch"],
            "given": state["samples"] if "samples" in state else state["batch"] * step_of_all_ranks,
        }
        words = [f"{name}={value!r}" for name, value in facts.items()]
        return f"{type(self).__name__}({', '.join(words)})"

    def __iter__(self) -> EpochPass:
        """Begin the next epoch, or the rest of one if a state has been loaded."""
        check_caller(inspect.currentframe())
        return EpochPass(self._start, self._feed, self._position, self._wait, self._progress)

    def __reduce__(self) -> tuple[object, ...]:
        """Copy or pickle the feed: it is made again, and continues after the last yielded batch."""
        if self.make_again is None:
            raise TypeError(
                "this loader cannot be copied or pickled: call get_data in the process that iterates"
            )
        return self.make_again, (), (self._recipe.rank_detected, self.state_dict())

    def __setstate__(self, state: tuple[bool, Mapping[str, Any]]) -> None:
        # ``make_again`` names the rank: it must still be that of the process that iterates.
        rank_detected, position = state
        self._recipe = replace(self._recipe, rank_detected=rank_detected)
        self.load_state_dict(position)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the feed after the last yielded batch, as JSON values."""
        return self._position.state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume after a state's last batch with the next ``iter()``.

        After the last batch of an epoch, the next epoch begins.

        The number of decoders may differ; of a balanced schedule also the ranks and the batch size.
        Raises ValueError if this is no state, or, with the differences, if shards or other settings
        of the state differ, OtherSamples if a ledger keeps other samples, or another table is
        joined.
        """
        loaded = self._position.load(state)
        if self._feed.run is not None:
            # A batch of its position would replace that of the state.
            self._feed.run.close()
        self._feed.set_memory_limits(loaded)

    def headspace(self, batches: int = 50) -> Iterator[Any]:
        """Yield batches of the next epoch, then repeat a few of them as often.

        Logs how much training waits for data.

        It is for a trial: the same loop as for training, over this instead of the feed.
        ``headroom`` has the result then. Raises ValueError for an epoch of fewer than three
        batches.
        """

        def done(result: Headspace) -> None:
            self.headroom = result
            log_or_print(
                logging.INFO, f"headspace of {rank_name(*self._recipe.job_rank)}: {result}"
            )

        given = iter(self)
        feed = self._feed
        try:
            yield from measure_headspace(
                given, batches, feed.cpu_seconds, feed.decoders, cores_for_rank(), done
            )
        finally:
            if feed.run is not None:
                feed.run.close()

    def explain(self, error: BaseException) -> StallError | None:
        """Return the message of another rank that failed, if that is the reason for ``error``."""
        return self._watchdog.explain(error)

    def close(self) -> None:
        """End all threads of this loader and wait for them.

        They also end when the last reference to the loader is gone.
        """
        self._feed.close()
        self._watchdog.stop()

    def _start(self) -> StartedEpoch:
        """Start decoding the epoch at the position of the feed. The run before it ends."""
        check_process(self._recipe.job_rank, detected=self._recipe.rank_detected)
        if self._feed.run is not None:
            self._feed.run.close()
        position = self._position.begin()
        number = self._position.running
        for source in self._recipe.sources:
            if source.join is not None:
                # Decoders of later epochs open the index again.
                source.join.index.note_use()
        # The feed reads and loses samples before the first batch is requested.
        before = self.tally.copy()
        try:
            return StartedEpoch(number, self._feed.start(number, position), before)
        except FeedStopped as error:
            self._wait.listen()
            raise self._wait.send_as_this_rank(error) from error.__cause__


def _progress(recipe: FeedRecipe) -> Progress:
    """Return the progress reporter.

    Evaluation prints no lines and must not overwrite the metrics of training.
    """
    options = recipe.options
    if not recipe.trains:
        options = replace(options, status_every=0.0, metrics=None)
    rank, world_size = recipe.job_rank
    cache = None if recipe.cache is None else recipe.cache.figures
    return Progress(options, rank=rank, world_size=world_size, cache=cache)
