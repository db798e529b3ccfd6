"""What a ceiling learns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsflow.memory.batching.ceiling import Ceiling, CeilingState


def drive(ceiling: Ceiling, capacity: int, batches: int) -> int:
    """Run batches that fill the ceiling, and return how many did not fit.

    ``capacity`` is the largest batch that fits on the device.
    """
    failed = 0
    for _ in range(batches):
        if ceiling.limit <= capacity:
            ceiling.record_success(ceiling.limit, limited=True)
        else:
            failed += 1
            ceiling.record_failure(ceiling.limit)
    return failed


@pytest.mark.parametrize("capacity", [10, 777, 5_000, 123_456])
def test_it_comes_close_to_the_capacity_and_rarely_fails(capacity):
    ceiling = Ceiling(CeilingState(limit=8))

    failed = drive(ceiling, capacity, 2000)

    assert capacity * 0.75 <= ceiling.limit <= capacity * 1.1
    assert failed <= 25


def test_it_comes_down_from_far_above_in_few_steps():
    ceiling = Ceiling(CeilingState(limit=1_000_000))

    assert drive(ceiling, 1000, 100) <= 25
    assert ceiling.limit <= 1000


def test_it_finds_memory_that_somebody_left():
    ceiling = Ceiling(CeilingState(limit=4000))
    drive(ceiling, 1000, 500)
    before = ceiling.limit

    drive(ceiling, 100_000, 4000)

    assert before <= 1100
    assert ceiling.limit >= 2000


def test_memory_that_somebody_took_is_learned_at_once():
    ceiling = Ceiling(CeilingState(limit=1000))
    drive(ceiling, 5000, 50)

    failed = drive(ceiling, 500, 30)

    assert 0 < failed <= 15
    assert ceiling.limit <= 550


def test_it_grows_by_a_quarter_after_clean_batches_that_it_cut_short():
    ceiling = Ceiling(CeilingState(limit=1000, worked=900, failed=5000))
    for _ in range(50):
        ceiling.record_success(400, limited=False)  # these say nothing about more
    for _ in range(7):
        ceiling.record_success(990, limited=True)
    assert ceiling.limit == 1000

    ceiling.record_success(990, limited=True)

    assert ceiling.limit == 1251


def test_it_never_passes_the_most_that_it_may_have():
    ceiling = Ceiling(max_limit=3000)

    assert drive(ceiling, 1 << 40, 500) == 0
    assert ceiling.limit == 3000
    assert Ceiling(CeilingState(limit=9000), max_limit=3000).limit == 3000


def test_one_large_item_that_works_does_not_unlearn_what_failed():
    ceiling = Ceiling(CeilingState(limit=400, worked=380, failed=500))

    ceiling.record_success(900, limited=False)

    assert ceiling.state == CeilingState(400, 380, 500)


def test_what_failed_for_one_item_is_taken_back_and_what_worked_since_is_kept():
    ceiling = Ceiling()
    before = ceiling.state
    ceiling.record_failure(640)
    ceiling.record_failure(320)
    ceiling.record_success(160, limited=False)

    ceiling.restore(before)

    assert ceiling.state == CeilingState(None, 160, None)


@given(
    st.integers(2, 10_000),
    st.lists(st.tuples(st.booleans(), st.integers(2, 10_000), st.booleans()), max_size=200),
)
def test_its_bounds_never_cross(limit, events):
    ceiling = Ceiling(CeilingState(limit=limit))
    for fits, cost, limited in events:
        if fits:
            ceiling.record_success(cost, limited=limited)
        else:
            ceiling.record_failure(cost)
        _, worked, failed = ceiling.state
        assert ceiling.limit >= 1
        assert failed is None or (ceiling.limit < failed and worked < failed)
