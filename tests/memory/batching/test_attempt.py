"""Single attempts at a batch, and windows of batches when the device is lost.

Tests which items are blamed, and what is tried next.
"""

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from wdsflow.memory.batching.attempt import (
    FailedAttempt,
    Failure,
    OutputsError,
    PoisonedError,
    attempt,
    device_error,
)
from wdsflow.memory.batching.ceiling import Ceiling, CeilingState
from wdsflow.memory.batching.device import HostDevice
from wdsflow.memory.batching.runner import BatchRunner

ASSERT = "CUDA error: device-side assert triggered"
SHORT = "CUDA out of memory."


def raising(error: BaseException) -> Callable[[Any], Any]:
    def run(batch: Any) -> Any:
        raise error

    return run


def caused_by(cause: BaseException) -> RuntimeError:
    error = RuntimeError("the model failed")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError(ASSERT), "poisoned"),
        (RuntimeError(SHORT), "out-of-memory"),
        (RuntimeError("shapes differ"), "raised"),
        (SystemExit("gone"), "raised"),
        (caused_by(RuntimeError(ASSERT)), "poisoned"),
        (caused_by(MemoryError()), "out-of-memory"),
    ],
)
def test_an_attempt_that_fails_says_what_kind_of_trouble_it_was(error, kind):
    name = type(error).__name__
    assert attempt(raising(error), [1]) == FailedAttempt(
        kind, f"raised-{name}", str(error), f"{name}: {error}"
    )


def test_a_lost_device_outweighs_short_memory():
    error = RuntimeError(ASSERT)
    error.__context__ = MemoryError()
    trouble = attempt(raising(error), [1])
    assert isinstance(trouble, FailedAttempt)
    assert trouble.kind == "poisoned"


@pytest.mark.parametrize(
    ("outputs", "found"),
    [
        (None, "None"),
        (7, "a int"),
        ("ab", "a str"),
        (b"ab", "a bytes"),
        ({1: 2, 3: 4}, "a dict"),
        ({1, 2}, "a set"),
        (frozenset({1, 2}), "a frozenset"),
    ],
)
def test_outputs_without_an_order_are_an_error_of_the_model(outputs, found):
    with pytest.raises(OutputsError, match=rf"run\(\) returned {found}; it must return a sequence"):
        attempt(lambda batch: outputs, [1, 2])


def test_outputs_may_come_one_by_one_and_raise_on_the_way():
    def run(batch: Any) -> Iterator[int]:
        yield 7
        if len(batch) > 1:
            raise MemoryError

    assert attempt(run, [1]) == [7]
    trouble = attempt(run, [1, 2])
    assert isinstance(trouble, FailedAttempt)
    assert trouble.kind == "out-of-memory"


def test_an_error_in_the_outputs_of_a_model_inside_the_model_passes():
    with pytest.raises(OutputsError, match="inner"):
        attempt(raising(OutputsError("inner")), [1])


class Held:
    pass


def test_what_a_lost_device_raises_is_told_and_holds_nothing():
    held = []

    def check() -> None:
        tensor = Held()
        held.append(weakref.ref(tensor))
        raise kept

    kept = RuntimeError(ASSERT)
    outside = ValueError("handled by the caller")
    try:
        raise outside
    except ValueError:
        told = device_error(check)

    assert told == f"RuntimeError: {ASSERT}"
    assert held[0]() is None
    assert outside.__traceback__ is not None
    assert device_error(lambda: None) is None


class Device(HostDevice):
    """A device that fails in its own time, and a model that notes its batches."""

    def __init__(self, **settings: Any) -> None:
        # Of a batch that has such an item.
        self.errors: dict[int, BaseException] = settings.get("errors", {})
        self.late: dict[str, BaseException] = settings.get("late", {})  # of release and check
        self.batches: list[list[int]] = []
        self.asked: list[str] = []

    def run(self, batch: Any) -> list[int]:
        self.batches.append(list(batch))
        for item in batch:
            if item in self.errors:
                raise self.errors[item]
        return [-item for item in batch]

    def release(self) -> None:
        self._ask("release")

    def check(self) -> None:
        self._ask("check")

    def memory(self) -> dict[str, int]:
        self._ask("memory")
        return {"free": 5}

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if what in self.late:
            raise self.late[what]

    def runner(self, **settings: Any) -> BatchRunner[int, int]:
        return BatchRunner(
            self.run, cost=lambda item: item, device=self, **{"waste": None, **settings}
        )


def test_items_that_are_to_be_alone_run_last_and_by_falling_cost():
    device = Device()

    assert device.runner().map([5, 1, 9, 3], alone=[0, 2]) == [-5, -1, -9, -3]
    assert device.batches == [[3, 1], [9], [5]]
    assert device.asked == []


@pytest.mark.parametrize(
    ("alone", "done", "suspects"),
    [
        ([], {2: -5, 3: -6}, (0, 1)),
        ([1], {0: -4, 2: -5}, ()),
        ([0], {2: -5}, (1,)),  # it was alone by chance
    ],
)
def test_who_was_there_when_the_device_was_lost_is_suspected_unless_it_was_known_to_be_alone(
    alone, done, suspects
):
    device = Device(errors={3: RuntimeError(ASSERT)})
    runner = device.runner(most_items=1 if alone else 2)
    with pytest.raises(PoisonedError) as caught:
        runner.map([4, 3, 5] if alone else [3, 2, 5, 6], alone)

    failure = (
        {1: Failure("poisoned-device", f"RuntimeError: {ASSERT}", {"cost": 3})}
        if not suspects
        else {}
    )
    assert str(caught.value) == f"the device is lost for this process: RuntimeError: {ASSERT}"
    assert caught.value.done == done | failure
    assert caught.value.suspects == suspects
    assert runner.tally.failed == len(failure)
    assert device.asked == []  # it is known to be lost


@pytest.mark.parametrize(
    ("error", "asked"),
    [(ValueError("bad"), ["check"]), (RuntimeError(SHORT), ["release"])],
    ids=["check", "release"],
)
def test_a_device_that_is_lost_late_is_lost(error, asked):
    device = Device(errors={3: error}, late={asked[0]: RuntimeError(ASSERT)})
    with pytest.raises(
        PoisonedError, match=r"lost for this process: RuntimeError: .*device-side assert"
    ):
        device.runner().map([3])
    assert device.asked == asked


def test_a_bad_item_is_checked_for_and_a_large_one_is_tried_again_on_an_emptied_cache():
    device = Device(errors={3: ValueError("bad"), 4: RuntimeError(SHORT)})
    runner = device.runner(most_items=1)

    assert runner.map([3, 4]) == [
        Failure("raised-ValueError", "bad", {"cost": 3}),
        Failure("out-of-memory", f"RuntimeError: {SHORT}", {"cost": 4, "free": 5}),
    ]
    assert device.batches == [[4], [4], [3]]
    assert device.asked == ["release", "release", "memory", "check"]
    assert (runner.tally.failed, runner.tally.out_of_memory, runner.tally.items) == (2, 2, 2)
    assert (runner.tally.batches, runner.tally.padded, runner.tally.real) == (0, 0, 0)


def test_memory_that_cannot_be_asked_for_is_left_out():
    device = Device(errors={4: RuntimeError(SHORT)}, late={"memory": RuntimeError("no answer")})
    (failure,) = device.runner().map([4])
    assert isinstance(failure, Failure)
    assert failure.numbers == {"cost": 4}


@pytest.mark.deep
def test_an_item_that_fails_otherwise_the_second_time_has_that_failure():
    errors = [RuntimeError(SHORT), ValueError("bad")]

    def run(batch: list[int]) -> list[int]:
        raise errors.pop(0)

    assert BatchRunner(run).map([7]) == [Failure("raised-ValueError", "bad", {"cost": 1})]


def test_a_device_that_is_lost_while_the_cpu_is_tried_is_lost():
    device = Device(errors={4: RuntimeError(SHORT)})
    with pytest.raises(PoisonedError):
        device.runner(on_cpu=raising(RuntimeError(ASSERT))).map([4])


def test_what_ran_on_the_cpu_says_nothing_of_the_device():
    device = Device(errors={4: RuntimeError(SHORT)})
    runner = device.runner(on_cpu=lambda batch: [0 for _ in batch], most_items=1)
    before = runner.ceiling.state

    assert runner.map([4, 2]) == [0, -2]
    assert (runner.tally.on_cpu, runner.tally.batches, runner.tally.padded, runner.tally.real) == (
        1,
        1,
        2,
        2,
    )
    assert (before.worked, runner.ceiling.state.worked) == (0, 2)


@pytest.mark.deep
def test_the_ceiling_learns_from_batches_that_it_cut_and_from_what_a_batch_cost():
    device = Device()
    runner = device.runner(ceiling=Ceiling(CeilingState(limit=10)))
    runner.map([5, 5, 5, 4])
    assert device.batches == [[5, 5], [5, 4]]
    assert runner.ceiling.state == CeilingState(20, 10)
    assert (runner.tally.padded, runner.tally.real) == (20, 19)

    errors = [RuntimeError(SHORT)] * 2

    def run(batch: list[int]) -> list[int]:
        if errors:
            raise errors.pop()
        return batch

    once = BatchRunner(
        run, cost=lambda item: item, waste=None, ceiling=Ceiling(CeilingState(limit=90))
    )
    once.map([30, 10])  # too much for two, and for one at its first try
    assert once.ceiling.state == CeilingState(42, 30, 60)


@pytest.mark.parametrize(("cost", "counted"), [(0, 1), (-4, 1), (2.9, 2), (3, 3)])
def test_a_cost_is_a_whole_number_of_at_least_one(cost, counted):
    runner = BatchRunner(lambda batch: batch, cost=lambda item: cost)
    runner.map([7])
    assert runner.tally.real == counted


def test_an_item_without_a_cost_is_counted_as_failed():
    def cost(item: int) -> int:
        raise KeyError("caption")

    runner = BatchRunner(lambda batch: batch, cost=cost)
    assert runner.map([7]) == [Failure("raised-KeyError", "'caption'", {})]
    assert (runner.tally.failed, runner.tally.items) == (1, 1)
