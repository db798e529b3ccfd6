"""The items of one call: which are done, which are still to be run, and in what groups."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Protocol

from .attempt import AttemptTrouble, Device, attempt, lost
from .batch_tally import BatchTally
from .ceiling import Ceiling, Known
from .item_outcome import OUT_OF_MEMORY, POISONED, Failure, PoisonedError
from .oom import text_of
from .plan import cut, halve, order


class Runner(Protocol):
    """What holds for all windows, as ``BatchRunner`` has it."""

    run: Callable[[Sequence[Any]], Sequence[Any]]
    cost: Callable[[Any], int]
    ceiling: Ceiling
    most_items: int
    waste: float | None
    device: Device
    on_cpu: Callable[[Sequence[Any]], Sequence[Any]] | None
    tally: BatchTally


class ItemGroup(NamedTuple):
    """Positions by falling cost that are still to be run."""

    positions: list[int]
    before: Known | None = None  # what the ceiling knew before a batch with these did not fit


class Window:
    """Runs the items of one call. Each attempt ends with its items done or with two smaller groups, so it ends."""

    def __init__(self, runner: Runner, items: Sequence[Any], alone: Collection[int]) -> None:
        self.runner = runner
        self.items = items
        self.alone = frozenset(alone)
        self.done: dict[int, Any] = {}
        self.costs = [self._cost(position) for position in range(len(items))]
        sorted_ = [position for position in order(self.costs) if position not in self.done]
        together = [position for position in sorted_ if position not in self.alone]
        self.groups = [ItemGroup([position]) for position in reversed(sorted_) if position in self.alone]
        self.groups += [ItemGroup(together)] if together else []
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
            self.groups.append(ItemGroup(positions[size:], before))
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
        self.groups += [ItemGroup(batch[half:], before), ItemGroup(batch[:half], before)]

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
