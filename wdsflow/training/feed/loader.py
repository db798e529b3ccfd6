"""The loader that training iterates over: batches, their number, and a state to continue from. Imports torch."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import torch

from wdsflow.training.feed_options import DecoderError, FeedStopped, SampleError
from wdsflow.training.stalls.loss_tally import LossTally
from wdsflow.training.stalls.progress import Progress
from wdsflow.training.stalls.stall import LaneFacts, StallError, rank_name, stall_message
from wdsflow.training.stalls.watchdog import Watchdog
from wdsflow.training.workers.decoder_deaths import ProcessDied, ProcessNotStarted, death_message, not_started_message
from wdsflow.training.workers.decoder_process import kill_decoders

from .batch_planner import StarvedError, StarvedFeed
from .epoch_run import EpochCounter, EpochRun, Ready
from .feed import Feed, FeedRecipe
from .feed_state import OtherSubset, check_state, make_state, resume_fixes
from .lanes import LanePosition


class Loader:
    """Iterates over one epoch at a time, as OpenCLIP's training and evaluation do.

    Each iteration over training data begins the next epoch, with other shards first, other batches and other crops.
    ``set_epoch`` chooses the epoch, as OpenCLIP's loop does. An iteration from which one batch was taken is a look, and
    does not count. An iteration that ends early, after two batches or more, counts.

    ``num_batches`` and ``num_samples``: of an epoch, as OpenCLIP counts them. ``tally``: what became of the samples.
    ``waited``: seconds that training waited for batches. Batches are views of memory that is used again once nobody
    holds them. Raises StallError if training would hang, SampleError if the user's own transform or tokenizer fails,
    and DecoderError if a decoding process is killed: all are ``FeedStopped``.
    """

    def __init__(self, recipe: FeedRecipe, epoch: int, identity: Mapping[str, Any]) -> None:
        schedule = recipe.schedule
        self.num_batches, self.num_samples, self.batch_size = (
            schedule.num_batches,
            schedule.num_samples,
            recipe.batch_size,
        )
        self.waited = 0.0
        self._recipe, self._identity = recipe, dict(identity)
        self._epochs = EpochCounter(epoch, advances=recipe.shuffle is not None)
        self._running = epoch  # epoch of the present iteration
        self._feed = Feed(recipe)
        self._watchdog = Watchdog(recipe.options.stall_after, kill_decoders)
        # Evaluation has no lines of its own, and would write over training's metrics.
        spoken = recipe.options if recipe.shuffle else replace(recipe.options, status_every=0.0, metrics=None)
        self._progress = Progress(spoken, rank=recipe.place.rank, world_size=recipe.place.world_size)
        self._before = self.tally
        self._run: EpochRun | None = None
        self._base_seed: int | None = None
        self._resumed: dict[str, Any] | None = None
        self._state: dict[str, Any] | None = None

    @property
    def tally(self) -> LossTally:
        """What became of the samples so far."""
        return self._feed.tally

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration begins, or continues where a state has been loaded."""
        return self._epochs.next

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration begin this epoch; if a state of this epoch was loaded, continue after that state.

        An iteration that has not given a batch yet begins this epoch, too.
        """
        self._epochs.ask(epoch)
        if self._resumed is None or self._resumed["epoch"] != epoch:
            self._resumed = self._state = None

    def __len__(self) -> int:
        """Return the number of batches. Raises TypeError where it is unknown: evaluation without ``val_num_samples``."""
        if not self.num_batches:
            raise TypeError("the number of batches is unknown: set val_num_samples")
        return self.num_batches

    def __iter__(self) -> Iterator[Any]:
        """Begin the next epoch, or what is left of one where a state has been loaded."""
        return self._batches(*self._begin())

    def state_dict(self) -> dict[str, Any]:
        """Return where the feed stands after the batch that was given out last; can be written as json."""
        return dict(self._state or self._stand(self.epoch, 0, None))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after a state's last batch with the next ``iter()``; after an epoch's last batch, begin the next epoch.

        Raises ValueError, naming what differs, if the state is of other shards or of other settings, OtherSubset if a
        ledger keeps other samples. The number of threads may differ.
        """
        try:
            check_state(state, self._identity)
        except OtherSubset as error:
            error.fixes = resume_fixes(self._recipe.options, error)
            raise
        done = int(state["batch"]) >= self.num_batches
        self._epochs.resume(int(state["epoch"]), done=done)
        self._state = dict(state)
        self._resumed = None if done else self._state
        if state["base_seed"] is not None:
            self._base_seed = int(state["base_seed"])
        # With more or less memory, or other decoders, samples would else come in another order, or be refused.
        self._feed.shuffle_bytes = int(state.get("shuffle_bytes", self._feed.shuffle_bytes))
        self._feed.limit(int(state.get("largest", self._feed.largest)))

    def explain(self, error: BaseException) -> StallError | None:
        """Return what another rank said when it failed, if that is why ``error`` was raised here."""
        return self._watchdog.explain(error)

    def close(self) -> None:
        """End all threads of this loader."""
        if self._run is not None:
            self._run.close()
            self._run = None
        self._watchdog.stop()
        self._feed.close()

    def _begin(self) -> tuple[EpochRun, int]:
        """Start to make the batches of the next epoch; return it, too."""
        if self._run is not None:
            self._run.close()
        epoch = self._running = self._epochs.begin()
        self._before = self.tally.copy()  # the feed reads and loses samples before the first batch is asked for
        self._seed()
        first, positions = self._take_up(epoch)
        try:
            self._run = self._feed.start(epoch, first, positions)
        except FeedStopped as error:
            self._watchdog.start()
            raise self._told(self._placed(type(error), str(error))) from error.__cause__
        except ProcessNotStarted as error:
            self._watchdog.start()
            message = not_started_message(error, self._recipe.options, known=self._recipe.images.known)
            raise self._told(self._placed(DecoderError, message)) from error.__cause__
        return self._run, epoch

    def _batches(self, run: EpochRun, epoch: int) -> Iterator[Any]:
        if self._epochs.asked and run is self._run:  # set_epoch after iter(), as in a hook of Lightning
            run, epoch = self._begin()
        self._watchdog.start()
        self._progress.begin(epoch, self.num_batches, self._before, self.waited)
        any_batch = False
        try:
            while (ready := self._next(run)) is not None:
                any_batch = True
                self._state = self._stand(epoch, ready.number + 1, ready.positions)
                self._progress.step(ready.samples, ready.number + 1, self.tally, self.waited)
                if self._epochs.give(last=ready.number + 1 == self.num_batches):
                    self._resumed = None  # not begun again
                batch = ready.batch
                del ready  # the only one who holds the batch now is training
                yield batch
                del batch
            self._progress.end(self.tally, self.waited)
            if self._recipe.shuffle is None and not any_batch:
                # OpenCLIP's evaluation would fail at an empty list, and leave the other ranks waiting.
                raise self._told(self._stall(run))
        finally:
            run.close()

    def _next(self, run: EpochRun) -> Ready | None:
        started = time.perf_counter()
        try:
            with self._watchdog.waiting(lambda waited: self._stall(run, waited=waited)):
                return run.next(self._look)
        except StallError:
            raise
        except StarvedError as error:
            raise self._told(self._stall(run, starved=error.starved)) from None
        except ProcessDied as error:
            raise self._told(self._placed(DecoderError, death_message(error.death, self._recipe.options))) from None
        except SampleError as error:
            raise self._told(self._placed(SampleError, str(error))) from error.__cause__
        except Exception as error:
            self._watchdog.failed(error)
            raise
        finally:
            self.waited += time.perf_counter() - started

    def _placed(self, kind: type[FeedStopped], message: str) -> FeedStopped:
        return kind(f"{rank_name(*self._recipe.place)}: {message}")

    def _told(self, error: FeedStopped) -> FeedStopped:
        """Return an error after all ranks have been told of it."""
        self._watchdog.failed(error)
        return error

    def _look(self, waited: float) -> None:
        if self._run is not None and self._run.planner is None:
            self._watchdog.again()  # what was given out before the state was taken is being passed over
        self._watchdog.check()
        self._progress.wait(waited, self.tally, self.waited)

    def _stall(self, run: EpochRun, *, waited: float | None = None, starved: StarvedFeed | None = None) -> StallError:
        place, schedule = self._recipe.place, self._recipe.schedule
        lane = starved.lane if starved is not None else run.planner.lane_in_turn if run.planner is not None else -1
        facts = None
        if lane >= 0:
            pieces = islice(schedule.pieces(self._running, lane), schedule.shards)
            urls = list({piece.url: None for piece in pieces})
            count = schedule.shards if schedule.endless else len(urls)
            usable = starved.usable if starved is not None else 0
            passes = int(starved is not None and starved.in_a_row is None)
            facts = LaneFacts(lane, count, urls[0] if urls else "", usable, self.batch_size, passes, schedule.lanes)
        message = stall_message(
            tally=self.tally.copy(),
            lane=facts,
            waited=waited,
            lost_in_a_row=starved.in_a_row if starved is not None else None,
            rank=place.rank,
            world_size=place.world_size,
            options=self._recipe.options,
            busy=[] if waited is None else run.engine.busy(waited / 2),
            reading=[] if waited is None else self._recipe.catalog.reading(waited / 2),
            data=self._recipe.data,
        )
        return StallError(message)

    def _take_up(self, epoch: int) -> tuple[int, list[LanePosition] | None]:
        """Return the first batch of this iteration, and where the lanes take up."""
        state = self._resumed
        if state is None or state["epoch"] != epoch or not state["lanes"]:
            return 0, None
        return int(state["batch"]), [LanePosition(*lane) for lane in state["lanes"]]

    def _stand(self, epoch: int, batch: int, positions: list[LanePosition] | None) -> dict[str, Any]:
        return make_state(
            self._identity,
            epoch=epoch,
            batch=batch,
            positions=positions,
            base_seed=self._base_seed,
            shuffle_bytes=self._feed.shuffle_bytes,
            largest=self._feed.largest,
        )

    def _seed(self) -> None:
        """Draw what a DataLoader draws when it begins, from the global generator: workers' seeds follow from it."""
        if self._base_seed is None:
            self._base_seed = int(torch.empty((), dtype=torch.int64).random_().item())
        self._recipe.schedule.base_seed = self._base_seed
