"""Runs a function on bounded batches of items.

Batches that do not fit are halved; no item costs another its result.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from .attempt import (
    OUT_OF_MEMORY,
    POISONED,
    Device,
    FailedAttempt,
    Failure,
    PoisonedError,
    attempt,
    device_error,
)
from .batch_cuts import by_falling_cost, next_batch, split_point
from .ceiling import Ceiling, CeilingState
from .device import HostDevice
from .exceptions import text_of

Item = TypeVar("Item")
Output = TypeVar("Output")
MOST_ITEMS = 256
WASTE = 1.2
# A GPU computes some thousand tokens in the time in which the kernels of one batch are started.
GPU_MOST_ITEMS = 512
GPU_WASTE = 1.5


@dataclass
class BatchTally:
    """Counts of a runner.

    Attributes:
        items: all.
        batches: those that worked.
        out_of_memory: attempts that did not fit.
        on_cpu: items that fitted on the CPU only.
        failed: items.
        padded: cells of the batches that worked.
        real: those of them that are not padding.
    """

    items: int = 0
    batches: int = 0
    out_of_memory: int = 0
    on_cpu: int = 0
    failed: int = 0
    padded: int = 0
    real: int = 0


class _ItemGroup(NamedTuple):
    """Positions of items by falling cost that are still to be run."""

    positions: list[int]
    # The state of the ceiling before a batch with these did not fit.
    before: CeilingState | None = None


class _ItemWindow(Generic[Item, Output]):
    """The items of one call: their costs, the groups still to be run, and results."""

    def __init__(self, items: Sequence[Item], alone: Collection[int]) -> None:
        self.items = items
        self.alone = frozenset(alone)
        self.costs: list[int] = []
        self.groups: list[_ItemGroup] = []
        self.results: dict[int, Output | Failure] = {}

    def arrange(self) -> None:
        """Group the items: those that are run alone come last."""
        together: list[int] = []
        alone: list[int] = []
        for position in by_falling_cost(self.costs):
            # One whose cost could not be computed has failed already.
            if position not in self.results:
                group = alone if position in self.alone else together
                group.append(position)
        # The last group is run first.
        self.groups = [_ItemGroup([position]) for position in reversed(alone)]
        if together:
            self.groups.append(_ItemGroup(together))


class BatchRunner(Generic[Item, Output]):
    """Runs ``run`` on batches of a window of items. For one thread.

    ``run`` returns an output for each item, in order, held off the device. ``cost`` is the size of
    an item before padding; a batch costs its longest times its length. A batch has at most
    ``most_items`` items and at most ``waste`` padded cells for each real one (None: any number).
    ``on_cpu`` runs an item alone that does not fit on the device.
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
    ) -> None:
        if most_items < 1:
            raise ValueError(f"most_items must be at least 1, not {most_items}")
        if waste is not None and not waste >= 1:
            raise ValueError(
                f"waste must be at least 1, not {waste}: padded cells are never fewer than the real ones"
            )
        self.run = run
        self.cost = cost
        self.most_items = most_items
        self.waste = waste
        self.ceiling = ceiling or Ceiling()
        self.device = device or HostDevice()
        self.on_cpu = on_cpu
        self.tally = BatchTally()

    def map(self, items: Sequence[Item], alone: Collection[int] = ()) -> list[Output | Failure]:
        """Return an output or a Failure for each item, in input order.

        The items at the positions ``alone`` are run last, each in its own batch. Raises
        OutputsError if ``run`` does not return an output for each item, and PoisonedError, with the
        results so far, if the device is lost.
        """
        window: _ItemWindow[Item, Output] = _ItemWindow(items, alone)
        window.costs = [self._cost(window, position) for position in range(len(items))]
        window.arrange()
        self.tally.items += len(items)
        # Each attempt ends with its items done or with two smaller groups.
        while window.groups:
            positions, before = window.groups.pop()
            costs = [window.costs[position] for position in positions[: self.most_items]]
            size, end = next_batch(costs, self.ceiling.limit, self.most_items, self.waste)
            if size < len(positions):
                window.groups.append(_ItemGroup(positions[size:], before))
            batch = positions[:size]
            result = attempt(self.run, [items[position] for position in batch])
            if isinstance(result, FailedAttempt):
                self._recover(window, batch, result, before)
            else:
                self._record_outputs(window, batch, result, limited=end == "ceiling")
        return [window.results[position] for position in range(len(items))]

    def _record_outputs(
        self,
        window: "_ItemWindow[Item, Output]",
        batch: list[int],
        outputs: Sequence[Output],
        *,
        limited: bool,
    ) -> None:
        """Take the outputs of a batch. ``limited``: only the ceiling kept it from more items."""
        window.results.update(zip(batch, outputs, strict=True))
        cost = len(batch) * window.costs[batch[0]]
        self.ceiling.record_success(cost, limited=limited)
        self.tally.batches += 1
        self.tally.padded += cost
        self.tally.real += sum(window.costs[position] for position in batch)

    def _recover(
        self,
        window: "_ItemWindow[Item, Output]",
        batch: list[int],
        failed_attempt: FailedAttempt,
        before: CeilingState | None,
    ) -> None:
        """Halve a batch that failed; of a single item, try more, or record its failure."""
        self._restore_device(window, batch, failed_attempt)
        cost = window.costs[batch[0]]
        if failed_attempt.kind == "out-of-memory":
            before = before or self.ceiling.state
            if len(batch) == 1:
                self._retry_item(window, batch, before)
                return
            self.ceiling.record_failure(len(batch) * cost)
        elif len(batch) == 1:
            self._record_failure(
                window, batch[0], Failure(failed_attempt.slug, failed_attempt.text, {"cost": cost})
            )
            return
        half = split_point([window.costs[position] for position in batch])
        # The first half is run first.
        window.groups.append(_ItemGroup(batch[half:], before))
        window.groups.append(_ItemGroup(batch[:half], before))

    def _retry_item(
        self, window: "_ItemWindow[Item, Output]", batch: list[int], before: CeilingState
    ) -> None:
        """Try an item that did not fit alone on the emptied cache, then on the CPU."""
        (position,) = batch
        item = window.items[position]
        cost = window.costs[position]
        result = attempt(self.run, [item])
        if not isinstance(result, FailedAttempt):
            self._record_outputs(window, batch, result, limited=False)
            return
        self._restore_device(window, batch, result)
        if result.kind == "raised":
            self._record_failure(
                window, position, Failure(result.slug, result.text, {"cost": cost})
            )
            return
        # The batches with this item failed because of it;
        # they say nothing about batches without it.
        self.ceiling.restore(before)
        numbers: dict[str, int] = {}
        device_error(lambda: numbers.update(self.device.memory()))
        detail = result.detail
        if self.on_cpu:
            cpu_result = attempt(self.on_cpu, [item])
            if not isinstance(cpu_result, FailedAttempt):
                window.results[position] = cpu_result[0]
                self.tally.on_cpu += 1
                return
            self._restore_device(window, batch, cpu_result)
            detail = f"{detail}; on the CPU: {cpu_result.detail}"
        self._record_failure(
            window, position, Failure(OUT_OF_MEMORY, detail, {"cost": cost, **numbers})
        )

    def _restore_device(
        self, window: "_ItemWindow[Item, Output]", batch: list[int], failed_attempt: FailedAttempt
    ) -> None:
        """Put the device in order after a failed attempt. Raises PoisonedError if it is lost."""
        detail: str | None = failed_attempt.detail
        if failed_attempt.kind == "out-of-memory":
            self.tally.out_of_memory += 1
            detail = device_error(self.device.release)
        elif failed_attempt.kind == "raised":
            # The device may still be lost: its errors come late.
            detail = device_error(self.device.check)
        if detail is None:
            return
        suspects = tuple(batch)
        first = batch[0]
        if first in window.alone:
            self._record_failure(
                window, first, Failure(POISONED, detail, {"cost": window.costs[first]})
            )
            suspects = ()
        raise PoisonedError(
            f"the device is lost for this process: {detail}", window.results, suspects
        )

    def _record_failure(
        self, window: "_ItemWindow[Item, Output]", position: int, failure: Failure
    ) -> None:
        window.results[position] = failure
        self.tally.failed += 1

    def _cost(self, window: "_ItemWindow[Item, Output]", position: int) -> int:
        """Return the cost of an item; if it cannot be computed, the item has failed."""
        try:
            return max(1, int(self.cost(window.items[position])))
        except Exception as error:  # noqa: BLE001 - whatever it raises, one bad item must not fail others
            self._record_failure(
                window, position, Failure(f"raised-{type(error).__name__}", text_of(error))
            )
            return 1
