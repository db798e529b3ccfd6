"""The position of a feed: the epoch that comes next, and the state after the last batch.

Imports torch.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from wdsflow.training.feed.recipe import FeedRecipe
from wdsflow.training.orders.order import EpochPosition

from .epoch_counter import EpochCounter
from .resume_fixes import resume_fixes
from .state import VERSION, OtherSamples, check_state


class FeedPosition:
    """Counts the batches and epochs of a feed, saves its position and resumes from it.

    ``running``: the epoch of the latest iteration.

    Args:
        recipe: of the feed.
        identity: what determines the order of its samples. States of another feed are refused.
        epoch: the first one.
        limits: returns the parts of a state that depend on the memory of the feed.
    """

    def __init__(
        self,
        recipe: FeedRecipe,
        identity: Mapping[str, object],
        epoch: int,
        limits: Callable[[], dict[str, int]],
    ) -> None:
        self.running = epoch
        self._options, self._order = recipe.options, recipe.order
        self._identity = dict(identity)
        self._limits = limits
        self._epochs = EpochCounter(epoch, advances=recipe.trains)
        self._base_seed: int | None = None
        # Of the last batch; None at the beginning of an epoch.
        self._state: dict[str, Any] | None = None
        # A loaded state, from which the next iteration continues.
        self._resumed: dict[str, Any] | None = None

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration begins, or continues."""
        return self._epochs.next

    @property
    def epoch_requested(self) -> bool:
        """Whether ``set_epoch`` has been called since the latest iteration began."""
        return self._epochs.requested

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration begin this epoch.

        If a state of this epoch was loaded, the iteration continues the epoch.
        """
        self._epochs.request(epoch)
        if self._resumed is None or self._resumed["epoch"] != epoch:
            self._resumed = self._state = None

    def begin(self) -> EpochPosition:
        """Begin an iteration; return its position in the epoch ``running``."""
        self.running = self._epochs.begin()
        # Drawn as a DataLoader draws it: workers' seeds derive from it.
        if self._base_seed is None:
            self._base_seed = int(torch.empty((), dtype=torch.int64).random_().item())
        self._order.base_seed = self._base_seed
        if self._resumed is not None and self._resumed["epoch"] == self.running:
            return self._order.position(self._resumed)
        return EpochPosition()

    def count_batch(self, epoch: int, after: EpochPosition, *, last: bool) -> None:
        """Count a batch of an epoch: the position is now ``after`` it. ``last``: it has no more."""
        self._state = self._state_at(epoch, after)
        if self._epochs.count_batch(last=last):
            # Resume only once.
            self._resumed = None

    def end(self, epoch: int) -> None:
        """End an epoch at the position of the other ranks.

        They may have got a last batch for which this rank had no sample.
        """
        if self._state is None:
            return
        position = self._order.position(self._state)
        last = self._order.at_last(position)
        if last != position:
            self.count_batch(epoch, last, last=True)

    def state(self) -> dict[str, Any]:
        """Return the position after the last batch, as JSON values."""
        return {**(self._state or self._state_at(self.epoch, EpochPosition()))}

    def load(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Continue after the last batch of a state; return its values.

        Raises ValueError if it is no state or of another feed, OtherSamples if that read other
        samples.
        """
        # The command of a run has its own advice.
        advice = "" if self._options.argv else ". Make the feed as it was then, or load no state"
        try:
            check_state(state, self._identity, advice, global_order=self._order.global_order)
        except OtherSamples as error:
            error.fixes = resume_fixes(self._options, error)
            raise
        loaded = dict(state)
        # What may fail comes first.
        done = self._order.is_over(self._order.position(loaded))
        seed = loaded.get("base_seed")
        if seed is not None:
            self._base_seed = int(seed)
        self._epochs.resume(int(loaded["epoch"]), done=done)
        self._state = loaded
        self._resumed = None if done else loaded
        return loaded

    def _state_at(self, epoch: int, position: EpochPosition) -> dict[str, Any]:
        order = self._order
        state: dict[str, Any] = {
            "version": VERSION,
            "epoch": epoch,
            "identity": dict(self._identity),
        }
        state |= order.state(position)
        if not order.global_order:
            state["base_seed"] = self._base_seed
        return state | self._limits()
