"""Bounded batches and the way back from what goes wrong in one."""

import weakref
from collections import Counter
from typing import Any

import numpy as np
import pytest

from wdsflow.memory.batching.attempt import Failure, OutputsError
from wdsflow.memory.batching.ceiling import Ceiling, CeilingState
from wdsflow.memory.batching.device import HostDevice
from wdsflow.memory.batching.runner import BatchRunner

torch = pytest.importorskip("torch")


class Accelerator:
    """A device of some capacity whose model answers with each item, negated."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.batches: list[list[int]] = []
        self.short = 0
        self.released = 0

    def run(self, batch: list[int]) -> list[int]:
        self.batches.append(list(batch))
        if len(batch) * max(batch) > self.capacity:
            self.short += 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB")
        return [-item for item in batch]

    def release(self) -> None:
        self.released += 1

    def check(self) -> None:
        pass

    def memory(self) -> dict[str, int]:
        return {"free": 5, "total": self.capacity, "reserved": 3, "allocated": 2}


def runner_of(device: Accelerator, **settings: object) -> BatchRunner[int, int]:
    return BatchRunner(
        device.run, cost=lambda item: item, device=device, **{"waste": None, **settings}
    )


def test_outputs_come_back_in_input_order():
    device = Accelerator(1000)
    items = [(index * 37) % 100 + 1 for index in range(200)]

    assert runner_of(device).map(items) == [-item for item in items]
    assert runner_of(device).map([]) == []


def test_a_batch_that_does_not_fit_is_split_and_what_is_done_is_kept():
    device = Accelerator(100)
    runner = runner_of(device)
    items = [10] * 40

    assert runner.map(items) == [-10] * 40
    worked = [batch for batch in device.batches if len(batch) * 10 <= 100]
    assert sum(map(len, worked)) == 40
    assert device.released == device.short == runner.tally.out_of_memory
    assert runner.ceiling.state.worked <= 100 < runner.ceiling.state.failed


def test_what_was_learned_holds_for_the_next_window():
    device = Accelerator(1000)
    runner = runner_of(device)
    runner.map([10] * 1000)
    before = device.short
    for _ in range(20):
        runner.map([10] * 1000)

    assert before <= 4
    assert device.short - before <= 12
    assert runner.ceiling.limit >= 750


def test_an_item_that_does_not_fit_costs_itself_and_not_the_speed_of_the_others():
    device = Accelerator(1000)
    runner = runner_of(device)
    items = [10, 5000, *[10] * 600]

    results = runner.map(items)

    assert results[:1] + results[2:] == [-10] * 601
    failure = results[1]
    assert failure.slug == "out-of-memory"
    assert "Tried to allocate" in failure.detail
    assert failure.numbers == {
        "cost": 5000,
        "free": 5,
        "total": 1000,
        "reserved": 3,
        "allocated": 2,
    }
    assert device.batches.count([5000]) == 2  # once more on an emptied cache
    assert len(device.batches) <= 30


def test_an_item_that_needs_more_than_its_cost_says_does_not_lower_the_ceiling_for_others():
    device = Accelerator(10_000)

    def run(batch: list[int]) -> list[int]:
        if 7 in batch:
            device.batches.append(list(batch))
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return device.run(batch)

    runner = BatchRunner(run, cost=lambda item: 1, device=device, most_items=64)
    results = runner.map([1, 2, 3, 4, 5, 6, 7, *[8] * 505])

    assert [index for index, result in enumerate(results) if isinstance(result, Failure)] == [6]
    assert len(device.batches) <= 7 + 2 + 7 + 7 + 2
    assert runner.ceiling.limit is None


@pytest.mark.deep
def test_the_second_try_of_an_item_alone_counts():
    calls = Counter[int]()

    def run(batch: list[int]) -> list[int]:
        calls[len(batch)] += 1
        if len(batch) > 1 or calls[1] == 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return batch

    assert BatchRunner(run).map([7, 8]) == [7, 8]
    assert calls == {2: 1, 1: 3}


def test_what_fits_nowhere_else_runs_on_the_cpu():
    device = Accelerator(100)
    on_cpu: list[list[int]] = []

    def slowly(batch: list[int]) -> list[str]:
        on_cpu.append(list(batch))
        return ["slowly" for _ in batch]

    runner = runner_of(device, on_cpu=slowly)

    assert runner.map([20, 300, 20, 200]) == [-20, "slowly", -20, "slowly"]
    assert on_cpu == [[300], [200]]
    assert runner.tally.on_cpu == 2
    assert runner.tally.failed == 0


def test_what_does_not_fit_on_the_cpu_either_says_both():
    def neither(batch: list[int]) -> list[int]:
        raise MemoryError("no host memory")

    (failure,) = runner_of(Accelerator(1), on_cpu=neither).map([9])

    assert failure.slug == "out-of-memory"
    assert "CUDA out of memory" in failure.detail
    assert "on the CPU: MemoryError: no host memory" in failure.detail


def test_a_bad_item_costs_itself():
    seen = Counter[int]()

    def run(batch: list[int]) -> list[float]:
        seen.update(batch)
        return [1 / item for item in batch]

    runner = BatchRunner(run, most_items=64)
    results = runner.map([1, 2, 0, *range(3, 100)])

    assert results[2] == Failure("raised-ZeroDivisionError", results[2].detail, {"cost": 1})
    assert results[:2] + results[3:] == [1 / item for item in range(1, 100)]
    assert runner.ceiling.state == CeilingState(None, 36, None)
    assert runner.tally.failed == 1
    assert max(seen.values()) <= 7


def test_an_item_whose_cost_cannot_be_told_costs_itself():
    items: list[Any] = ["ab", 5, "c"]
    results = BatchRunner(lambda batch: batch, cost=len).map(items)

    assert results[0] == "ab"
    assert results[1].slug == "raised-TypeError"
    assert results[2] == "c"


def test_an_interruption_passes():
    def run(batch: list[int]) -> list[int]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        BatchRunner(run).map([1])


@pytest.mark.parametrize(
    ("outputs", "match"),
    [
        ([1, 2], "returned 2 outputs for 3 items"),
        ([], "returned 0 outputs for 3 items"),
        (np.zeros((4, 2)), "returned 4 outputs for 3 items"),
        ("abc", "returned a str"),
        ({1: 1, 2: 2, 3: 3}, "returned a dict"),
    ],
)
def test_a_wrong_number_of_outputs_is_an_error_with_both_numbers(outputs, match):
    with pytest.raises(OutputsError, match=match):
        BatchRunner(lambda batch: outputs).map([1, 2, 3])


def test_an_array_has_an_output_in_each_row():
    def run(batch: list[int]) -> Any:
        return np.array([[item, item] for item in batch])

    results: list[Any] = BatchRunner(run).map([1, 2])

    assert [row.tolist() for row in results] == [[1, 1], [2, 2]]


class Tensor:
    pass


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory."), ValueError("bad")]
)
def test_nothing_of_the_batch_is_held_when_memory_is_given_back(error):
    held, alive_then = [], []

    class Watching(HostDevice):
        def release(self) -> None:
            alive_then.append(held[-1]() is not None)

        check = release

    def run(batch: list[int]) -> list[int]:
        tensor = Tensor()
        held.append(weakref.ref(tensor))
        try:
            raise error
        except Exception as caught:
            loop = caught  # a cycle: the frame holds the error, which holds the frame
            raise RuntimeError("model") from loop

    BatchRunner(run, device=Watching()).map([1, 2, 3])

    assert alive_then
    assert not any(alive_then)


def test_an_error_that_the_caller_handles_is_not_taken_for_an_items():
    def run(batch: list[int]) -> list[int]:
        raise ValueError("bad")

    def handle() -> None:
        try:
            raise outside
        except MemoryError:
            results.extend(BatchRunner(run).map([1, 2]))

    outside, results = MemoryError(), []
    handle()

    assert outside.__traceback__ is not None
    assert {result.slug for result in results} == {"raised-ValueError"}


def test_the_cells_of_all_batches_are_counted():
    device = Accelerator(10_000)
    runner = runner_of(device, ceiling=Ceiling(max_limit=2000), waste=1.2)

    runner.map([(index * 7919) % 300 + 1 for index in range(500)])

    assert runner.tally.padded <= 1.2 * runner.tally.real
    assert runner.tally.real == sum((index * 7919) % 300 + 1 for index in range(500))
    assert runner.tally.items == 500
    assert all(len(batch) * max(batch) <= 2000 for batch in device.batches)


@pytest.mark.parametrize("settings", [{"most_items": 0}, {"waste": 0.9}, {"waste": float("nan")}])
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(ValueError, match="must be at least 1"):
        BatchRunner(lambda batch: batch, **settings)
