"""Runs items of any cost in bounded batches, and recovers from failed batches."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from .attempt import (
    OUT_OF_MEMORY,
    POISONED,
    AttemptTrouble,
    Device,
    Failure,
    PoisonedError,
    attempt,
    lost,
    text_of,
)
from .device import HostDevice

Item = TypeVar("Item")
Output = TypeVar("Output")
# Batches before a cost that did not fit is doubted.
_FIRST_WAIT, _LONGEST_WAIT = 64, 4096


class Known(NamedTuple):
    """The state of a ceiling: its bound, the largest cost that worked, the smallest that did not."""

    limit: int | None = None
    worked: int = 0
    failed: int | None = None


class Ceiling:
    """The bound on the cost of a batch, moved by experience.

    ``limit`` is None as long as nothing bounds it. A batch that does not fit lowers it by three
    tenths, or to the largest cost that worked. ``patience`` clean batches in a row that it cut
    short raise it by a quarter, at most half of the way to the known bad cost; as long as none is
    known, each doubles it. Where good and bad have met, the bad one is doubted after 64 clean
    batches and counted a tenth higher, as another process may have left the device; each time that
    this was wrong it waits twice as long. ``most`` is never passed, such as where passing it would
    end the process.
    """

    def __init__(
        self, known: Known | None = None, *, most: int | None = None, patience: int = 8
    ) -> None:
        self.known = known or Known()
        self.most = most
        self.patience = patience
        # Batches that the limit cut short since it last moved.
        self._clean = 0
        self._wait = _FIRST_WAIT
        # Times in a row without a failure.
        self._doubted = 0
        if most is not None and (self.limit is None or self.limit > most):
            self.known = self.known._replace(limit=most)

    @property
    def limit(self) -> int | None:
        """The largest cost that a batch of several items may have now."""
        return self.known.limit

    def good(self, cost: int, *, limited: bool) -> None:
        """Note that a batch worked; ``limited``: it would have had more items but for the limit."""
        limit, worked, failed = self.known
        if failed is not None and cost >= failed:
            # One large item is no evidence about many small ones.
            return
        self.known = Known(limit, max(worked, cost), failed)
        if limited:
            self._clean += 1
            self._grow()

    def bad(self, cost: int) -> None:
        """Note that a batch of several items did not fit."""
        failed = min(cost, self.known.failed or cost)
        worked = self.known.worked if self.known.worked < failed else 0
        if self._doubted:
            self._wait = min(self._wait * 2, _LONGEST_WAIT)
        self.known = Known(max(1, min(failed - 1, max(worked, cost * 7 // 10))), worked, failed)
        self._clean = self._doubted = 0

    def restore(self, before: Known) -> None:
        """Undo the effect of batches that failed for one of their items, but keep costs that worked since."""
        if before.failed is None or self.known.worked < before.failed:
            before = before._replace(worked=max(before.worked, self.known.worked))
        self.known = before
        self._clean = 0

    def _grow(self) -> None:
        limit, worked, failed = self.known
        if limit is None or (self.most is not None and limit >= self.most):
            return
        if failed is None:
            self._raise(limit * 2)
        elif failed - limit > max(1, failed // 20):
            if self._clean >= self.patience:
                self._raise(min(limit * 5 // 4 + 1, (limit + failed + 1) // 2))
        elif self._clean >= self._wait:
            self._clean, self._doubted = 0, self._doubted + 1
            if self._doubted > 1:
                self._wait = max(_FIRST_WAIT, self._wait // 2)
            self.known = Known(limit, worked, failed * 11 // 10 + 1)

    def _raise(self, limit: int) -> None:
        self._clean = 0
        self.known = self.known._replace(
            limit=limit if self.most is None else min(limit, self.most)
        )


def order(costs: Sequence[int]) -> list[int]:
    """Return positions by falling cost, equal ones in input order.

    The largest first: failures come at once, and later batches fit in the same memory.
    """
    return sorted(range(len(costs)), key=lambda index: (-costs[index], index))


def cut(
    costs: Sequence[int], ceiling: int | None, most: int, waste: float | None
) -> tuple[int, str]:
    """Return how many of the first items make the next batch, and its bound: "ceiling", "most", "waste" or "end" of items.

    ``costs`` are falling, at least 1, and not empty. One item is always taken; more, while they and
    their padding cost at most ``ceiling``, they are at most ``most``, and all cells are at most
    ``waste`` times the real ones.
    """
    real = 0
    for index, cost in enumerate(costs):
        padded, real = (index + 1) * costs[0], real + cost
        if index == 0:
            continue
        if index >= most:
            return index, "most"
        if ceiling is not None and padded > ceiling:
            return index, "ceiling"
        if waste is not None and padded > waste * real:
            return index, "waste"
    return len(costs), "end"


def batches(
    costs: Sequence[int], ceiling: int | None, most: int, waste: float | None
) -> list[list[int]]:
    """Return the positions of each batch for a ceiling that does not change."""
    rest, made = order(costs), []
    while rest:
        taken = cut([costs[index] for index in rest[: most + 1]], ceiling, most, waste)[0]
        made.append(rest[:taken])
        rest = rest[taken:]
    return made


def halve(costs: Sequence[int]) -> int:
    """Return where to split a batch of at least two items, of falling costs, so that both parts cost about the same."""
    size = len(costs)
    return min(range(1, size), key=lambda at: max(at * costs[0], (size - at) * costs[at]))


MOST_ITEMS, WASTE = 256, 1.2
# A GPU computes some thousand tokens in the time in which the kernels of one batch are started.
GPU_MOST_ITEMS, GPU_WASTE = 512, 1.5


@dataclass
class BatchTally:
    """Counts of a runner: items, batches that worked, attempts that did not fit, items that fitted on the CPU only ..."""

    items: int = 0
    batches: int = 0
    out_of_memory: int = 0
    on_cpu: int = 0
    # Items.
    failed: int = 0
    # Cells of the batches that worked.
    padded: int = 0
    real: int = 0


class _ItemGroup(NamedTuple):
    """Positions of items by falling cost that are still to be run."""

    positions: list[int]
    # The state of the ceiling before a batch with these did not fit.
    before: Known | None = None


class _Window(Generic[Item, Output]):
    """The items of one call: their costs, the groups still to be run, and results."""

    def __init__(self, items: Sequence[Item], alone: Collection[int]) -> None:
        self.items, self.alone = items, frozenset(alone)
        self.costs: list[int] = []
        self.groups: list[_ItemGroup] = []
        self.done: dict[int, Output | Failure] = {}

    def arrange(self) -> None:
        """Group the items: those that are run alone come last."""
        positions = [position for position in order(self.costs) if position not in self.done]
        together = [position for position in positions if position not in self.alone]
        self.groups = [
            _ItemGroup([position]) for position in reversed(positions) if position in self.alone
        ]
        self.groups += [_ItemGroup(together)] if together else []


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
        self.run, self.cost, self.most_items, self.waste = run, cost, most_items, waste
        self.ceiling, self.device = ceiling or Ceiling(), device or HostDevice()
        self.on_cpu = on_cpu
        self.tally = BatchTally()

    def map(self, items: Sequence[Item], alone: Collection[int] = ()) -> list[Output | Failure]:
        """Return an output or a Failure for each item, in input order.

        The items at the positions ``alone`` are run last, each in its own batch. Raises
        OutputsError if ``run`` does not return an output for each item, and PoisonedError, with the
        results so far, if the device is lost.
        """
        window: _Window[Item, Output] = _Window(items, alone)
        window.costs = [self._cost(window, position) for position in range(len(items))]
        window.arrange()
        self.tally.items += len(items)
        # Each attempt ends with its items done or with two smaller groups.
        while window.groups:
            positions, before = window.groups.pop()
            costs = [window.costs[position] for position in positions[: self.most_items]]
            size, bound = cut(costs, self.ceiling.limit, self.most_items, self.waste)
            if size < len(positions):
                window.groups.append(_ItemGroup(positions[size:], before))
            batch = positions[:size]
            found = attempt(self.run, [items[position] for position in batch])
            if isinstance(found, AttemptTrouble):
                self._recover(window, batch, found, before)
            else:
                self._worked(window, batch, found, limited=bound == "ceiling")
        return [window.done[position] for position in range(len(items))]

    def _worked(
        self,
        window: "_Window[Item, Output]",
        batch: list[int],
        outputs: Sequence[Output],
        *,
        limited: bool,
    ) -> None:
        window.done.update(zip(batch, outputs, strict=True))
        cost = len(batch) * window.costs[batch[0]]
        self.ceiling.good(cost, limited=limited)
        self.tally.batches += 1
        self.tally.padded += cost
        self.tally.real += sum(window.costs[position] for position in batch)

    def _recover(
        self,
        window: "_Window[Item, Output]",
        batch: list[int],
        trouble: AttemptTrouble,
        before: Known | None,
    ) -> None:
        """Halve a batch that failed; of a single item, try more, or record its failure."""
        self._restore(window, batch, trouble)
        cost = window.costs[batch[0]]
        if trouble.kind == "out-of-memory":
            before = before or self.ceiling.known
            if len(batch) == 1:
                self._single(window, batch, before)
                return
            self.ceiling.bad(len(batch) * cost)
        elif len(batch) == 1:
            self._fail(window, batch[0], Failure(trouble.slug, trouble.text, {"cost": cost}))
            return
        half = halve([window.costs[position] for position in batch])
        window.groups += [_ItemGroup(batch[half:], before), _ItemGroup(batch[:half], before)]

    def _single(self, window: "_Window[Item, Output]", batch: list[int], before: Known) -> None:
        """Try an item that did not fit alone on the emptied cache, then on the CPU."""
        (position,) = batch
        item, cost = window.items[position], window.costs[position]
        again = attempt(self.run, [item])
        if not isinstance(again, AttemptTrouble):
            self._worked(window, batch, again, limited=False)
            return
        self._restore(window, batch, again)
        if again.kind == "raised":
            self._fail(window, position, Failure(again.slug, again.text, {"cost": cost}))
            return
        # The batches with this item failed because of it; they say nothing about batches without
        # it.
        self.ceiling.restore(before)
        numbers: dict[str, int] = {}
        lost(lambda: numbers.update(self.device.memory()))
        detail = again.detail
        if self.on_cpu:
            found = attempt(self.on_cpu, [item])
            if not isinstance(found, AttemptTrouble):
                window.done[position] = found[0]
                self.tally.on_cpu += 1
                return
            self._restore(window, batch, found)
            detail = f"{detail}; on the CPU: {found.detail}"
        self._fail(window, position, Failure(OUT_OF_MEMORY, detail, {"cost": cost, **numbers}))

    def _restore(
        self, window: "_Window[Item, Output]", batch: list[int], trouble: AttemptTrouble
    ) -> None:
        """Put the device in order after a failed attempt. Raises PoisonedError if it is lost."""
        self.tally.out_of_memory += trouble.kind == "out-of-memory"
        detail: str | None = trouble.detail
        # The device may still be lost: its errors come late.
        if trouble.kind != "poisoned":
            detail = lost(
                self.device.release if trouble.kind == "out-of-memory" else self.device.check
            )
        if detail is None:
            return
        suspects = tuple(batch)
        if batch[0] in window.alone:
            self._fail(
                window, batch[0], Failure(POISONED, detail, {"cost": window.costs[batch[0]]})
            )
            suspects = ()
        raise PoisonedError(f"the device is lost for this process: {detail}", window.done, suspects)

    def _fail(self, window: "_Window[Item, Output]", position: int, failure: Failure) -> None:
        window.done[position] = failure
        self.tally.failed += 1

    def _cost(self, window: "_Window[Item, Output]", position: int) -> int:
        try:
            return max(1, int(self.cost(window.items[position])))
        except Exception as error:  # noqa: BLE001 - whatever it raises, one bad item must not fail others
            self._fail(window, position, Failure(f"raised-{type(error).__name__}", text_of(error)))
            return 1
