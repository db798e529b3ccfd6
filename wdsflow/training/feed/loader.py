"""The loader that training iterates over: batches, their number, and a state to resume from. Imports torch."""

import inspect
import logging
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from wdsflow.training.feed_options import DecoderError, FeedStopped, SampleError, whole
from wdsflow.training.orders.order import EpochPosition
from wdsflow.training.ranks import cores_for_rank
from wdsflow.training.stalls.loss_tally import say
from wdsflow.training.stalls.progress import Progress
from wdsflow.training.stalls.stall import StallError, rank_name
from wdsflow.training.stalls.watchdog import Watchdog
from wdsflow.training.workers.decoder_process import kill_decoders

from .callers import check_caller, check_process
from .epoch.epoch_run import EpochRun, Ready
from .epoch.losses import StarvedError
from .epoch.stall_error import stall_error
from .epoch_batches import EpochBatches
from .feed import Feed
from .headspace import Headspace, measured
from .recipe import FeedRecipe
from .resume.epoch_counter import EpochCounter
from .resume.resume_fixes import resume_fixes
from .resume.state import VERSION, OtherSubset, check_state


class Loader(torch.utils.data.IterableDataset[Any]):
    """Iterates over one epoch at a time, as OpenCLIP's training and evaluation do.

    Each iteration over training data begins the next epoch, with other shards first, other batches
    and other crops. ``set_epoch`` selects the epoch, as OpenCLIP's loop does. An iteration from
    which one batch was taken is a look and does not count. An iteration that ends early, after two
    batches or more, counts.

    ``num_batches`` and ``num_samples``: of an epoch, as OpenCLIP counts them. ``tally``: counts of
    samples kept and lost. ``waited``: seconds that training waited for batches. Batches are views
    of memory that is reused once nothing references them. Raises StallError if training would hang,
    SampleError if the user's transform or tokenizer fails, and DecoderError if a decoding process
    is killed: all are ``FeedStopped``.
    """

    def __init__(self, recipe: FeedRecipe, epoch: int, identity: Mapping[str, object]) -> None:
        order = recipe.order
        self.num_batches = order.num_batches
        self.num_samples = order.num_samples
        self.batch_size = order.batch_size
        self.waited = 0.0
        self._recipe = recipe
        self._identity = dict(identity)
        self._epochs = EpochCounter(epoch, advances=recipe.trains)
        # The epoch of the current iteration.
        self._running = epoch
        self._feed = Feed(recipe)
        self.tally = self._feed.tally
        self._watchdog = Watchdog(recipe.options.stall_after, kill_decoders)
        # Evaluation prints no lines of its own, and must not overwrite training's metrics.
        spoken = (
            recipe.options
            if recipe.trains
            else replace(recipe.options, status_every=0.0, metrics=None)
        )
        self._progress = Progress(
            spoken, rank=recipe.place.rank, world_size=recipe.place.world_size
        )
        # Of a loader that is not closed: no thread and no process refers to it.
        for abandon in (self._watchdog.abandon, self._feed.abandon):
            weakref.finalize(self, abandon).atexit = False
        self.headroom: Headspace | None = None
        # Makes this feed in another process.
        self.again: Callable[[], Loader] | None = None
        self._before = self.tally
        self._run: EpochRun | None = None
        # Whether the last batch of the current pass has been given.
        self._last_given = False
        self._base_seed: int | None = None
        self._resumed: dict[str, Any] | None = None
        self._state: dict[str, Any] | None = None

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration begins, or continues if a state has been loaded."""
        return self._epochs.next

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration begin this epoch; if a state of this epoch was loaded, continue after that state.

        An iteration that has not yielded a batch yet also begins this epoch.
        """
        self._epochs.ask(whole("epoch", epoch, 0))
        if self._resumed is None or self._resumed["epoch"] != epoch:
            self._resumed = self._state = None

    def __len__(self) -> int:
        """Return the number of batches. Raises TypeError if it is unknown: evaluation without ``val_num_samples``."""
        if not self.num_batches:
            raise TypeError("the number of batches is unknown: set val_num_samples")
        return self.num_batches

    def __repr__(self) -> str:
        """Return what an epoch has, and how far this one is: ``given`` counts samples of all ranks."""
        recipe, order, state = self._recipe, self._recipe.order, self.state_dict()
        whole_step = self.batch_size * recipe.place.world_size
        shuffle = self._identity["shuffle"]
        # Otherwise the buffers of OpenCLIP's loader.
        if not isinstance(shuffle, int):
            shuffle = recipe.shuffle.samples if recipe.shuffle else 0
        facts: dict[str, object] = {
            "samples": order.num_samples,
            "shards": order.shards,
            "batch_size": self.batch_size,
            "batches": self.num_batches,
            **recipe.place._asdict(),
            "schedule": order.name,
        }
        if order.weights:
            facts["weights"] = list(order.weights)
        facts |= {
            "shuffle": shuffle,
            "seed": recipe.seed,
            "fields": recipe.sources[0].columns.fields,
            "epoch": state["epoch"],
            "given": state["samples"] if "samples" in state else state["batch"] * whole_step,
        }
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in facts.items())})"

    def __iter__(self) -> EpochBatches:
        """Begin the next epoch, or the rest of one if a state has been loaded."""
        check_caller(inspect.currentframe())
        return EpochBatches(self._batches(*self._begin()), lambda: self._last_given)

    def __reduce__(self) -> tuple[object, ...]:
        """Copy or pickle the feed: it is made again, and continues after the last yielded batch."""
        if self.again is None:
            raise TypeError(
                "this loader cannot be copied or pickled: call get_data in the process that iterates"
            )
        return self.again, (), (self._recipe.found, self.state_dict())

    def __setstate__(self, state: tuple[bool, Mapping[str, Any]]) -> None:
        # ``again`` names the rank: it must still be that of the process that iterates.
        found, position = state
        self._recipe = replace(self._recipe, found=found)
        self.load_state_dict(position)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the feed after the last yielded batch, as JSON values."""
        return {**(self._state or self._position(self.epoch, EpochPosition()))}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after a state's last batch with the next ``iter()``; after an epoch's last batch, begin the next epoch.

        The number of decoders may differ; of a balanced schedule also the ranks and the batch size.
        Raises ValueError if this is no state, or, with the differences, if shards or other settings
        of the state differ, OtherSubset if a ledger keeps other samples.
        """
        try:
            # The command of a run has its own advice.
            advice = (
                ""
                if self._recipe.options.argv
                else ". Make the feed as it was then, or load no state"
            )
            check_state(state, self._identity, advice)
        except OtherSubset as error:
            error.fixes = resume_fixes(self._recipe.options, error)
            raise
        loaded = dict(state)
        order = self._recipe.order
        done = order.is_over(order.position(loaded))
        # With a different amount of memory, the order of samples would differ.
        if order.keeps_places:
            self._feed.shuffle_bytes = int(loaded["lane_bytes"])
        else:
            if (seed := loaded.get("base_seed")) is not None:
                self._base_seed = int(seed)
            self._feed.shuffle_bytes = int(loaded.get("shuffle_bytes", self._feed.shuffle_bytes))
            # With other decoders, other samples would be refused.
            self._feed.limit(int(loaded.get("largest", self._feed.largest)))
        if self._run is not None:
            # A batch of its position would replace that of the state.
            self._run.close()
        self._epochs.resume(int(loaded["epoch"]), done=done)
        self._state = loaded
        self._resumed = None if done else loaded

    def headspace(self, batches: int = 50) -> Iterator[Any]:
        """Yield batches of the next epoch, then a few of them again as often, and log how much training waits for data.

        It is for a trial: the same loop as for training, over this instead of the feed.
        ``headroom`` has the result then. Raises ValueError for an epoch of fewer than three
        batches.
        """

        def done(found: Headspace) -> None:
            self.headroom = found
            say(logging.INFO, f"headspace of {rank_name(*self._recipe.place)}: {found}")

        given = iter(self)
        try:
            yield from measured(
                given, batches, self._feed.cpu, self._feed.decoders, cores_for_rank(), done
            )
        finally:
            if self._run is not None:
                self._run.close()

    def explain(self, error: BaseException) -> StallError | None:
        """Return the message of another rank that failed, if that is the reason for ``error``."""
        return self._watchdog.explain(error)

    def close(self) -> None:
        """End all threads of this loader, and wait for them. They also end after the last reference to it is gone."""
        if self._run is not None:
            self._run.close()
            self._run = None
        self._watchdog.stop()

    def _begin(self) -> tuple[EpochRun, int]:
        check_process(self._recipe.place, found=self._recipe.found)
        if self._run is not None:
            self._run.close()
        epoch = self._running = self._epochs.begin()
        self._last_given = False
        # The feed reads and loses samples before the first batch is requested.
        self._before = self.tally.copy()
        # Drawn as a DataLoader draws it: workers' seeds derive from it.
        if self._base_seed is None:
            self._base_seed = int(torch.empty((), dtype=torch.int64).random_().item())
        self._recipe.order.base_seed = self._base_seed
        begin, state = EpochPosition(), self._resumed
        if state is not None and state["epoch"] == epoch:
            begin = self._recipe.order.position(state)
        try:
            self._run = self._feed.run = self._feed.start(epoch, begin)
        except FeedStopped as error:
            self._watchdog.start()
            raise self._placed(error) from error.__cause__
        return self._run, epoch

    def _batches(self, run: EpochRun, epoch: int) -> Generator[Any, None, None]:
        # set_epoch or load_state_dict was called after iter(), as in a hook of Lightning.
        if run is self._run and (self._epochs.asked or run.stopped):
            run, epoch = self._begin()
        self._watchdog.start()
        self._progress.begin(epoch, self.num_batches, self._before, self.waited)
        any_batch = False
        try:
            while (ready := self._next(run)) is not None:
                any_batch = True
                self._state = self._position(epoch, ready.after)
                self._progress.step(ready.samples, ready.number + 1, self.tally, self.waited)
                self._last_given = ready.number + 1 == self.num_batches
                if self._epochs.give(last=self._last_given):
                    # Resume only once.
                    self._resumed = None
                batch = ready.batch
                # Only training references the batch now.
                del ready
                yield batch
                del batch
            self._last_given = True
            self._progress.end(self.tally, self.waited)
            self._end_epoch(epoch)
            if not self._recipe.trains and not any_batch:
                # OpenCLIP's evaluation would fail on an empty list, and the other ranks would hang.
                raise self._announced(self._stall(run))
        finally:
            run.close()

    def _end_epoch(self, epoch: int) -> None:
        """Take up the position of the other ranks, if they got a last batch for which this one had no sample."""
        order = self._recipe.order
        if self._state is None:
            return
        position = order.position(self._state)
        last = order.at_last(position)
        if last != position:
            self._state = self._position(epoch, last)
            if self._epochs.give(last=True):
                self._resumed = None

    def _next(self, run: EpochRun) -> Ready | None:
        started = time.perf_counter()
        try:
            with self._watchdog.waiting(lambda waited: self._stall(run, waited=waited)):
                return run.next(self._look)
        except StallError:
            raise
        except StarvedError as error:
            raise self._announced(self._stall(run, starved=error)) from None
        except (DecoderError, SampleError) as error:
            raise self._placed(error) from error.__cause__
        except Exception as error:
            self._watchdog.failed(error)
            raise
        finally:
            self.waited += time.perf_counter() - started

    def _placed(self, error: FeedStopped) -> FeedStopped:
        """Notify all ranks of an error, then return it with the name of this rank."""
        return self._announced(type(error)(f"{rank_name(*self._recipe.place)}: {error}"))

    def _announced(self, error: FeedStopped) -> FeedStopped:
        self._watchdog.failed(error)
        return error

    def _look(self, waited: float) -> None:
        if self._run is not None and self._run.planner is None:
            # It is still skipping the samples that were yielded before the state was saved.
            self._watchdog.again()
        self._watchdog.check()
        self._progress.wait(waited, self.tally, self.waited)

    def _stall(
        self, run: EpochRun, *, waited: float | None = None, starved: StarvedError | None = None
    ) -> StallError:
        return stall_error(
            self._recipe, run, self._running, self.tally.copy(), waited=waited, starved=starved
        )

    def _position(self, epoch: int, after: EpochPosition) -> dict[str, Any]:
        order = self._recipe.order
        state: dict[str, Any] = {
            "version": VERSION,
            "epoch": epoch,
            "identity": dict(self._identity),
        }
        state |= order.state(after)
        if order.keeps_places:
            return {**state, "lane_bytes": self._feed.shuffle_bytes}
        return {
            **state,
            "base_seed": self._base_seed,
            "shuffle_bytes": self._feed.shuffle_bytes,
            "largest": self._feed.largest,
        }
