"""The policy of retries: what is repeated after a death, and when an item or a sample is blamed."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines.trials import map_with_restarts
from wdsflow.engines.retries import LOADS, NOT_BEGUN, ItemTrials, TaskDeaths, retry_step
from wdsflow.memory.batching.attempt import PoisonedError

BAD = PoisonedError("lost", {0: "bad"})  # a new failure, and nothing else done


def test_after_the_loss_of_a_device_suspects_come_last_and_alone():
    answers: Iterator[Any] = iter(
        [
            PoisonedError("lost", {0: "a", 3: "d"}, (1, 2)),  # 4 was not tried
            ["e"],
            PoisonedError("lost", {0: "b"}),
            ["c"],
        ]
    )
    calls: list[Any] = []

    def call(items: list[int], alone: list[int]) -> Any:
        calls.append((items, alone))
        answer = next(answers)
        if isinstance(answer, PoisonedError):
            raise answer
        return answer

    restarts: list[int] = []
    assert map_with_restarts(call, list(range(5)), lambda: restarts.append(1)) == list("abcde")
    assert calls == [([0, 1, 2, 3, 4], []), ([4], []), ([1], [0]), ([2], [0])]
    assert len(restarts) == 2


@pytest.mark.parametrize(
    ("answers", "count", "calls"),
    [
        ([BAD] * 40, 30, 16),
        # Something was done as well, so that counting begins again.
        ([*[BAD] * 15, PoisonedError("lost", {0: "done", 1: "bad"}), *[BAD] * 40], 60, 32),
        ([*[BAD] * 15, PoisonedError("lost", {0: "done"}, (1,)), *[BAD] * 40], 60, 32),
        # Nothing new at all: neither an outcome nor a suspect.
        ([PoisonedError("lost", {})], 30, 1),
        ([PoisonedError("lost", {}, (0, 1)), PoisonedError("lost", {}, (0,))], 2, 2),
    ],
)
def test_a_device_that_gets_nothing_done_is_given_up(answers, count, calls):
    asked = iter(answers)
    made = []

    def call(items: list[int], alone: list[int]) -> list[Any]:
        made.append(items)
        raise next(asked)

    with pytest.raises(PoisonedError, match="lost"):
        map_with_restarts(call, list(range(count)), lambda: None)
    assert len(made) == calls


def test_a_process_that_returns_too_few_outcomes_is_an_error():
    with pytest.raises(ValueError, match="shorter"):
        map_with_restarts(lambda items, alone: items[1:], [1, 2], lambda: None)


@given(st.integers(0, 20), st.frozensets(st.integers(0, 19), max_size=4))
def test_processes_that_die_at_some_items_cost_these_items_and_no_other(count, deadly):
    trials: ItemTrials[str] = ItemTrials(count)
    processes = 0
    while group := trials.next():
        if deadly.isdisjoint(group):
            trials.record_outputs([f"output {at}" for at in group])
        else:
            processes += 1
            assert not trials.record_death("begun", "died")
    blamed = deadly & set(range(count))
    assert trials.outputs() == ["died" if at in blamed else f"output {at}" for at in range(count)]
    # Twice together, then each suspect twice.
    assert processes == (2 + 2 * len(blamed) if blamed else 0)


def test_processes_that_never_get_anywhere_are_given_up():
    trials: ItemTrials[str] = ItemTrials(3)
    trials.next()
    assert [trials.record_death("loading", "died") for _ in range(LOADS)] == [False] * (
        LOADS - 1
    ) + [True]

    trials = ItemTrials(1)
    deaths = 0
    while trials.next():
        assert not trials.record_death("unbegun", "died")
        deaths += 1
    assert (deaths, trials.outputs()) == (4 * NOT_BEGUN, ["died"])


def test_a_sample_at_which_two_shard_workers_die_is_blamed_and_other_deaths_end_the_task():
    deaths = TaskDeaths()
    assert (deaths.add(7), deaths.add(3), deaths.add(7), deaths.too_many) == (None, None, 7, False)
    deaths.add(7)
    assert deaths.too_many

    early = TaskDeaths()
    assert (early.add(-1), early.too_many, early.add(-1), early.too_many) == (
        None,
        False,
        None,
        True,
    )

    many = TaskDeaths()
    for sample in range(12):
        many.add(sample)
        assert not many.too_many
    many.add(12)
    assert many.too_many


def test_rows_at_which_a_map_worker_fails_are_halved_and_a_row_is_tried_alone_before_it_is_blamed():
    assert retry_step(4, had_all=True, may_be_blameless=False) == "halves"
    assert retry_step(1, had_all=False, may_be_blameless=True) == "alone"
    assert retry_step(1, had_all=True, may_be_blameless=True) == "blamed"
    assert retry_step(1, had_all=False, may_be_blameless=False) == "blamed"
