"""Whatever does not fit, and whenever: each item is run once, in order.

Only items that fail by themselves are failures.
"""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines.trials import map_with_restarts
from wdsflow.memory.batching.attempt import Failure, PoisonedError
from wdsflow.memory.batching.ceiling import Ceiling, CeilingState
from wdsflow.memory.batching.runner import BatchRunner

torch = pytest.importorskip("torch")


class Process:
    """A process with a device that is lost for it once a poisonous item ran."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.lost = False
        self.late = False
        self.runner = BatchRunner(
            self.run,
            cost=lambda item: item[1],
            ceiling=Ceiling(CeilingState(limit=world.limit)),
            most_items=world.most,
            waste=world.waste,
            device=self,
        )

    def run(self, batch: list[tuple[int, int]]) -> list[int]:
        world = self.world
        world.attempts += 1
        if self.lost:
            raise RuntimeError("CUDA error: device-side assert triggered")
        keys = [key for key, _ in batch]
        moment = world.attempts in world.moments
        if len(batch) * max(cost for _, cost in batch) > world.capacity or moment:
            world.short_alone.update(keys if len(batch) == 1 else [])
            raise torch.OutOfMemoryError("CUDA out of memory.")
        if world.poisonous.intersection(keys):
            self.lost = True
            if world.late:  # another error is reported; the device itself tells the rest
                raise RuntimeError("CUBLAS_STATUS_EXECUTION_FAILED")
            raise RuntimeError("CUDA error: device-side assert triggered")
        if world.bad.intersection(keys):
            raise ValueError("bad")
        world.worked.update(keys)
        return [key * 10 for key in keys]

    def check(self) -> None:
        if self.lost:
            raise RuntimeError("CUDA error: device-side assert triggered")

    release = check

    def memory(self) -> dict[str, int]:
        return {"free": 0, "total": self.world.capacity}


class World:
    """What happens to items, and a count of what did."""

    def __init__(self, **settings: object) -> None:
        self.capacity: int = settings.get("capacity", 1000)
        self.limit: int | None = settings.get("limit")
        self.most: int = settings.get("most", 16)
        self.waste: float | None = settings.get("waste")
        self.bad: frozenset[int] = settings.get("bad", frozenset())
        self.poisonous: frozenset[int] = settings.get("poisonous", frozenset())
        self.late: bool = settings.get("late", False)
        self.moments: frozenset[int] = settings.get("moments", frozenset())
        self.attempts = 0
        self.restarts = 0
        self.worked = Counter[int]()
        self.short_alone = Counter[int]()
        self.process = Process(self)

    def run(self, items: list[tuple[int, int]], alone: list[int]) -> list[Any]:
        return self.process.runner.map(items, alone)

    def restart(self) -> None:
        self.restarts += 1
        self.process = Process(self)

    def map(self, items: list[tuple[int, int]]) -> list[Any]:
        return map_with_restarts(self.run, items, self.restart)


KEYS = st.frozensets(st.integers(0, 39), max_size=6)
WORLDS = {
    "capacity": st.integers(1, 3000),
    "limit": st.none() | st.integers(1, 5000),
    "most": st.integers(1, 64),
    "waste": st.none() | st.just(1.2),
    "bad": KEYS,
    "moments": st.frozensets(st.integers(1, 80), max_size=30),
}


@given(st.lists(st.integers(1, 1500), max_size=40), st.fixed_dictionaries(WORLDS))
def test_no_item_is_lost_and_none_is_run_twice(costs, chosen):
    world = World(**chosen)

    results = world.map(list(enumerate(costs)))

    assert len(results) == len(costs)
    for key, (cost, result) in enumerate(zip(costs, results, strict=True)):
        if isinstance(result, Failure) and result.slug == "out-of-memory":
            assert world.short_alone[key] == 2
            assert cost > world.capacity or chosen["moments"]
        elif isinstance(result, Failure):
            assert result.slug == "raised-ValueError"
            assert key in world.bad
        else:
            assert result == key * 10
        assert world.worked[key] == (not isinstance(result, Failure))
        assert (
            not isinstance(result, Failure)
            or cost > world.capacity
            or key in world.bad
            or chosen["moments"]
        )
    assert world.attempts <= 3 * len(costs)
    assert world.restarts == 0


@given(
    st.lists(st.integers(1, 1500), max_size=40),
    st.fixed_dictionaries(
        {
            **WORLDS,
            "poisonous": st.frozensets(st.integers(0, 39), max_size=4),
            "late": st.booleans(),
        }
    ),
)
def test_what_makes_the_device_useless_is_singled_out_over_restarts(costs, chosen):
    world = World(**chosen)

    results = world.map(list(enumerate(costs)))

    assert len(results) == len(costs)
    for key, result in enumerate(results):
        if not isinstance(result, Failure):
            assert result == key * 10
            assert key not in world.poisonous | world.bad
        elif result.slug == "poisoned-device":
            assert key in world.poisonous
        elif result.slug == "out-of-memory":
            assert world.short_alone[key] >= 2
        else:
            assert key in world.bad
        assert world.worked[key] == (not isinstance(result, Failure))
    assert world.restarts <= 2 * len(world.poisonous)


def test_the_window_survives_a_poisonous_item_with_all_that_was_done():
    world = World(poisonous=frozenset({5}), most=8)

    results = world.map([(key, 10) for key in range(40)])

    assert [key for key, result in enumerate(results) if isinstance(result, Failure)] == [5]
    assert results[5].slug == "poisoned-device"
    assert "device-side assert" in results[5].detail
    assert world.restarts == 2
    assert set(world.worked.values()) == {1}


def test_an_item_that_was_there_when_the_device_broke_by_itself_is_tried_once_more():
    broken = []

    def run(batch: list[int]) -> list[int]:
        if not broken:
            broken.append(batch)
            raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
        return batch

    def call(items: list[int], alone: list[int]) -> list[Any]:
        return BatchRunner(run, most_items=1).map(items, alone)

    assert map_with_restarts(call, [7, 8, 9], lambda: None) == [7, 8, 9]
    assert broken == [[7]]


def test_a_device_that_nothing_works_on_is_given_up():
    world = World(poisonous=frozenset(range(1000)), most=4)

    with pytest.raises(PoisonedError, match="device-side assert"):
        world.map([(key, 10) for key in range(1000)])
    assert world.restarts <= 16


def test_a_process_that_dies_without_a_word_on_each_item_is_given_up():
    calls = []

    def call(items: list[int], alone: list[int]) -> list[int]:
        calls.append(list(alone))
        raise PoisonedError("killed", {}, tuple(range(len(items))))

    with pytest.raises(PoisonedError, match="killed"):
        map_with_restarts(call, [1, 2, 3], lambda: None)
    assert calls == [[], [0]]
