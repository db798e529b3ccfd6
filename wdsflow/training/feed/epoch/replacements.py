"""What fills the places of lost samples, where these keep their places."""

from collections.abc import Iterable
from itertools import cycle

from wdsflow.training.sample_tasks import Task

from .first_valid import FirstValid
from .losses import Losses, StarvedError
from .planned_step import PlannedStep


class Replacements:
    """Fills the places of lost samples.

    The first samples of the next batch that has some fill them: within a batch no sample is there
    twice, which losses that compare the samples of a batch would take for a pair of different ones.
    At the end of the epoch other samples of the same batch fill them, and if there are none, the
    first valid ones of the epoch. So what fills a place does not depend on where a run was resumed.

    Args:
        first_valid: searches the epoch from its beginning.
        losses: of this rank.
    """

    def __init__(self, first_valid: FirstValid, losses: Losses) -> None:
        self._first_valid, self._losses = first_valid, losses
        # Samples of it that the next batch waits for.
        self._needed = 0

    def search(self, count: int) -> list[Task]:
        """Draw at most ``count`` samples from the beginning of the epoch, if the next batch needs some."""
        if len(self._first_valid.samples) >= self._needed:
            return []
        return self._first_valid.draw(count)

    def fill(
        self, planned: PlannedStep, later: Iterable[PlannedStep], *, all_planned: bool
    ) -> list[Task] | None:
        """Return the samples of a complete step with others in the places of lost ones; None while these are not known.

        Args:
            planned: the step.
            later: the planned steps after it.
            all_planned: whether these are all steps up to the end of the epoch.

        Raises:
            StarvedError: no sample of the epoch can be used.
        """
        if not planned.lost:
            return planned.valid()
        others = self._others(planned, later, all_planned=all_planned)
        if not others:
            return None
        endless = cycle(others)
        return [next(endless) if task is None else task for task in planned.samples()]

    def _others(
        self, planned: PlannedStep, later: Iterable[PlannedStep], *, all_planned: bool
    ) -> list[Task]:
        lost = planned.lost
        for step in later:
            following = step.valid()[:lost]
            if len(following) == lost or (following and step.complete):
                return following
            if not step.complete:
                return []
        if not all_planned:
            return []
        return planned.valid() or self._first_ones(lost)

    def _first_ones(self, count: int) -> list[Task]:
        first = self._first_valid
        self._needed = count
        if len(first.samples) < count and not first.exhausted:
            return []
        if not first.samples:
            raise StarvedError(None, 0, self._losses.in_a_row)
        return first.samples[:count]
