"""Runs items of any cost in bounded batches and recovers from what goes wrong in one."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from .attempt import OUT_OF_MEMORY, POISONED, AttemptTrouble, Device, Failure, PoisonedError, attempt, lost, text_of
from .ceiling import Ceiling, Known, Padding, cut, halve, order
from .device import HostDevice

Item = TypeVar("Item")
Output = TypeVar("Output")
MOST_ITEMS, WASTE = 256, 1.2


@dataclass
class BatchTally:
    """What a runner did so far."""

    items: int = 0
    batches: int = 0  # that worked
    out_of_memory: int = 0  # attempts that did not fit
    on_cpu: int = 0  # items that fitted nowhere else
    failed: int = 0  # items
    padded: int = 0  # cells of the batches that worked
    real: int = 0

    @property
    def padding(self) -> Padding:
        """The cells that were computed."""
        return Padding(self.padded, self.real)


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
            return _Window(self, items, alone).finish()
        finally:
            known = self.ceiling.known
            if self.learned and (known.limit, known.failed) != (before.limit, before.failed):
                self.learned(self.ceiling)


class _ItemGroup(NamedTuple):
    """Positions by falling cost that are still to be run."""

    positions: list[int]
    before: Known | None = None  # what the ceiling knew before a batch with these did not fit


class _Window:
    """Runs the items of one call. Each attempt ends with its items done or with two smaller groups, so it ends."""

    def __init__(self, runner: "BatchRunner[Any, Any]", items: Sequence[Any], alone: Collection[int]) -> None:
        self.runner = runner
        self.items = items
        self.alone = frozenset(alone)
        self.done: dict[int, Any] = {}
        self.costs = [self._cost(position) for position in range(len(items))]
        sorted_ = [position for position in order(self.costs) if position not in self.done]
        together = [position for position in sorted_ if position not in self.alone]
        self.groups = [_ItemGroup([position]) for position in reversed(sorted_) if position in self.alone]
        self.groups += [_ItemGroup(together)] if together else []
        runner.tally.items += len(items)

    def finish(self) -> list[Any]:
        """Run what is to be run; return what became of each item, in input order."""
        while self.groups:
            self._step()
        return [self.done[position] for position in range(len(self.items))]

    def _step(self) -> None:
        runner, (positions, before) = self.runner, self.groups.pop()
        costs = [self.costs[position] for position in positions[: runner.most_items]]
        size, stop = cut(costs, runner.ceiling.limit, runner.most_items, runner.waste)
        if size < len(positions):
            self.groups.append(_ItemGroup(positions[size:], before))
        batch, costs = positions[:size], costs[:size]
        trouble = self._try(batch, runner.run, limited=stop == "ceiling")
        if trouble is None:
            return
        if trouble.kind == "out-of-memory":
            before = before or runner.ceiling.known
            if size == 1:
                self._single(batch[0], before)
                return
            runner.ceiling.bad(size * costs[0])
        elif size == 1:
            self._fail(batch[0], Failure(trouble.slug, trouble.text, {"cost": costs[0]}))
            return
        half = halve(costs)
        self.groups += [_ItemGroup(batch[half:], before), _ItemGroup(batch[:half], before)]

    def _try(
        self, batch: list[int], run: Callable[[Sequence[Any]], Sequence[Any]], *, limited: bool = False
    ) -> AttemptTrouble | None:
        """Keep the outputs of a batch, or return the trouble, with the device in order again."""
        tally, device = self.runner.tally, self.runner.device
        found = attempt(run, [self.items[position] for position in batch])
        if not isinstance(found, AttemptTrouble):
            self.done.update(zip(batch, found, strict=True))
            if run is self.runner.run:
                cost = len(batch) * self.costs[batch[0]]
                self.runner.ceiling.good(cost, limited=limited)
                tally.batches += 1
                tally.padded += cost
                tally.real += sum(self.costs[position] for position in batch)
            return None
        tally.out_of_memory += found.kind == "out-of-memory"
        gone: str | None = found.detail
        if found.kind != "poisoned":  # the device may be lost all the same: its errors come late
            gone = lost(device.release if found.kind == "out-of-memory" else device.check)
        if gone is not None:
            raise self._poisoned(batch, gone)
        return found

    def _single(self, position: int, before: Known) -> None:
        """Try an item that did not fit alone on the emptied cache, then on the CPU."""
        runner = self.runner
        again = self._try([position], runner.run)
        if again is None:
            return
        if again.kind == "raised":
            self._fail(position, Failure(again.slug, again.text, {"cost": self.costs[position]}))
            return
        # The batches that it was in failed for its sake, and say nothing about batches without it.
        runner.ceiling.restore(before)
        numbers: dict[str, int] = {}
        lost(lambda: numbers.update(runner.device.memory()))
        detail = again.detail
        if runner.on_cpu:
            trouble = self._try([position], runner.on_cpu)
            if trouble is None:
                runner.tally.on_cpu += 1
                return
            detail = f"{detail}; on the CPU: {trouble.detail}"
        self._fail(position, Failure(OUT_OF_MEMORY, detail, {"cost": self.costs[position], **numbers}))

    def _poisoned(self, batch: list[int], detail: str) -> PoisonedError:
        suspects = tuple(batch)
        if batch[0] in self.alone:  # by itself, then
            self._fail(batch[0], Failure(POISONED, detail, {"cost": self.costs[batch[0]]}))
            suspects = ()
        return PoisonedError(f"the device is lost for this process: {detail}", self.done, suspects)

    def _fail(self, position: int, failure: Failure) -> None:
        self.done[position] = failure
        self.runner.tally.failed += 1

    def _cost(self, position: int) -> int:
        try:
            return max(1, int(self.runner.cost(self.items[position])))
        except Exception as error:  # noqa: BLE001 - one bad item must cost itself alone, whatever it raises
            self._fail(position, Failure(f"raised-{type(error).__name__}", text_of(error)))
            return 1
