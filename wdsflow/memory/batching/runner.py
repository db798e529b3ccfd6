"""Runs items of any cost in bounded batches and recovers from what goes wrong in one."""

from collections.abc import Callable, Collection, Sequence
from typing import Generic, TypeVar

from .attempt import Device
from .batch_tally import BatchTally
from .ceiling import Ceiling
from .host import HostDevice
from .item_outcome import Failure
from .window import Window

Item = TypeVar("Item")
Output = TypeVar("Output")
MOST_ITEMS, WASTE = 256, 1.2


class BatchRunner(Generic[Item, Output]):
    """Runs ``run`` on batches of a window of items. For one thread.

    ``run`` returns an output for each item, in order, held off the device. ``cost`` is the size of an item before
    padding; a batch costs its longest times its length. A batch has at most ``most_items`` items and at most ``waste``
    padded cells for each real one (None: any number). ``on_cpu`` runs an item alone that does not fit on the device.
    ``learned`` is called after a window that moved the ceiling, for instance to save it.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Item]], Sequence[Output]],
        *,
        cost: Callable[[Item], int] = lambda item: 1,
        ceiling: Ceiling | None = None,
        most_items: int = MOST_ITEMS,
        waste: float | None = WASTE,
        device: Device | None = None,
        on_cpu: Callable[[Sequence[Item]], Sequence[Output]] | None = None,
        learned: Callable[[Ceiling], object] | None = None,
    ) -> None:
        if most_items < 1:
            raise ValueError(f"most_items must be at least 1, not {most_items}")
        if waste is not None and not waste >= 1:
            raise ValueError(f"waste must be at least 1, not {waste}: padded cells are never fewer than the real ones")
        self.run = run
        self.cost = cost
        self.ceiling = ceiling or Ceiling()
        self.most_items = most_items
        self.waste = waste
        self.device = device or HostDevice()
        self.on_cpu = on_cpu
        self.learned = learned
        self.tally = BatchTally()

    def map(self, items: Sequence[Item], alone: Collection[int] = ()) -> list[Output | Failure]:
        """Return an output or a Failure for each item, in input order.

        The items at the positions ``alone`` are run last and each by itself. Raises OutputsError if ``run`` does not
        return an output for each item, and PoisonedError, with what is done, if the device is lost.
        """
        before = self.ceiling.known
        try:
            return Window(self, items, alone).finish()
        finally:
            known = self.ceiling.known
            if self.learned and (known.limit, known.failed) != (before.limit, before.failed):
                self.learned(self.ceiling)
