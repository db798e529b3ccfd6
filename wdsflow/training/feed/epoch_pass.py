"""One pass over a feed: the iterator that training takes its batches from."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from wdsflow.training.stalls.loss_tally import LossTally
from wdsflow.training.stalls.progress import Progress

from .epoch.batch_wait import BatchWait
from .epoch.epoch_run import EpochRun, Ready
from .feed import Feed
from .resume.position import FeedPosition


class StartedEpoch(NamedTuple):
    """An epoch whose batches are being made.

    ``before``: the counts of samples when it was started.
    """

    number: int
    run: EpochRun
    before: LossTally


class EpochPass(Iterator[Any]):
    """Iterates over the batches of one pass.

    It ends with an error, or with the last reference to it, even before the first batch.

    Its own state is for torchdata's StatefulDataLoader, which stores it next to that of the feed.
    The feed's state after the last batch of an epoch continues with the next epoch: only the state
    of the pass says that this one has no more.

    Args:
        start: starts the epoch at the position of the feed.
        feed: has the run of the latest pass.
        position: counts the batches.
        wait: waits for the next batch.
        progress: reports to the user.
    """

    # Set first: __del__ is called even if the constructor fails.
    _epoch: StartedEpoch | None = None

    def __init__(
        self,
        start: Callable[[], StartedEpoch],
        feed: Feed,
        position: FeedPosition,
        wait: BatchWait,
        progress: Progress,
    ) -> None:
        self._start, self._feed, self._position = start, feed, position
        self._wait, self._progress = wait, progress
        self._num_batches = feed.recipe.order.num_batches
        self._first_requested = False
        self._any_given = self._last_given = False
        self._closed = False
        # By a loaded state.
        self._over = False
        # Decoders begin now, before the first batch is requested.
        self._epoch = start()

    def __next__(self) -> Any:
        if self._over or self._closed:
            raise StopIteration
        try:
            ready = self._next(self._begun())
        except BaseException:
            self.close()
            raise
        if ready is None:
            self.close()
            raise StopIteration
        # Only training references the batch from now on, so that its memory can be used again.
        return ready.batch

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """End the pass."""
        self._closed = True
        if self._epoch is not None:
            self._epoch.run.close()

    def state_dict(self) -> dict[str, Any]:
        """Return whether the pass has no more batches."""
        return {"over": self._over or self._last_given}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Give no batch if the pass of this state had none left."""
        self._over = bool(state["over"])

    def _begun(self) -> StartedEpoch:
        """Return the epoch; at the first batch, begin to report about it."""
        assert self._epoch is not None
        if self._first_requested:
            return self._epoch
        self._first_requested = True
        is_latest = self._epoch.run is self._feed.run
        # set_epoch or load_state_dict was called after iter(), as in a hook of Lightning.
        if is_latest and (self._position.epoch_requested or self._epoch.run.stopped):
            self._epoch = self._start()
        self._wait.listen()
        self._progress.begin(
            self._epoch.number, self._num_batches, self._epoch.before, self._wait.seconds
        )
        return self._epoch

    def _next(self, epoch: StartedEpoch) -> Ready | None:
        """Return the next batch, and count it; None after the last."""
        ready = self._wait.next(epoch.run, epoch.number)
        if ready is None:
            self._end(epoch)
            return None
        self._any_given = True
        self._last_given = ready.number + 1 == self._num_batches
        self._position.count_batch(epoch.number, ready.after, last=self._last_given)
        tally, waited = self._feed.tally, self._wait.seconds
        self._progress.step(ready.samples, ready.number + 1, tally, waited)
        return ready

    def _end(self, epoch: StartedEpoch) -> None:
        self._last_given = True
        self._progress.end(self._feed.tally, self._wait.seconds)
        self._position.end(epoch.number)
        if not self._feed.recipe.trains and not self._any_given:
            # OpenCLIP's evaluation would fail on an empty list, and the other ranks would hang.
            raise self._wait.send_no_batch_error(epoch.run, epoch.number)
