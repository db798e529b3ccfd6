"""Which items go together, and what padding that costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsflow.memory.batching.batch_cuts import batches, by_falling_cost, next_batch, split_point

COSTS = st.lists(st.integers(1, 2000), max_size=60)
CEILINGS = st.none() | st.integers(1, 5000)


def padding(made, costs):
    """Return the padded and the real cells of batches of positions."""
    return (
        sum(len(batch) * max(costs[index] for index in batch) for batch in made if batch),
        sum(costs[index] for batch in made for index in batch),
    )


def ratio(made, costs):
    """Return padded cells for each real one."""
    padded, real = padding(made, costs)
    return padded / real


@given(COSTS, CEILINGS, st.integers(1, 20), st.none() | st.floats(1, 3))
def test_batches_hold_each_item_once_within_all_bounds(costs, ceiling, most, waste):
    made = batches(costs, ceiling, most, waste)

    assert sorted(index for batch in made for index in batch) == list(range(len(costs)))
    for batch in made:
        padded, real = padding([batch], costs)
        assert len(batch) <= most
        assert len(batch) == 1 or ceiling is None or padded <= ceiling
        assert waste is None or padded <= waste * real
    assert made == batches(list(costs), ceiling, most, waste)


@given(COSTS, CEILINGS, st.integers(1, 20))
def test_a_batch_takes_all_that_it_may(costs, ceiling, most):
    falling = sorted(costs, reverse=True)
    if not falling:
        return
    size, stop = next_batch(falling, ceiling, most, None)

    if stop == "end":
        assert size == len(falling)
    elif stop == "most":
        assert size == most
    else:
        assert (size + 1) * falling[0] > ceiling


@pytest.mark.parametrize("longest", [20, 300, 5000])
def test_mixed_sizes_cost_at_most_a_fifth_more_than_the_real_cells(longest):
    costs = [1 + (index * 7919) % longest for index in range(3000)]
    unsorted = [list(range(start, start + 32)) for start in range(0, 2976, 32)]
    made = batches(costs, 32 * longest, 256, 1.2)

    assert ratio(unsorted, costs) > 1.5
    assert ratio(made, costs) <= 1.2
    assert len(made) < len(costs) / 8


def test_equal_costs_stay_in_input_order():
    assert by_falling_cost([5, 9, 5, 9, 5]) == [1, 3, 0, 2, 4]


def test_an_item_beyond_the_ceiling_goes_alone():
    assert batches([50, 900, 50], 100, 8, None) == [[1], [0, 2]]
    assert next_batch([900], 100, 8, None) == (1, "end")


@given(st.lists(st.integers(1, 10_000), min_size=2, max_size=50))
def test_halves_are_smaller_and_neither_is_empty(costs):
    falling = sorted(costs, reverse=True)

    at = split_point(falling)

    assert 0 < at < len(falling)
    assert max(at * falling[0], (len(falling) - at) * falling[at]) < len(falling) * falling[0]


def test_a_batch_is_halved_by_cost_not_by_count():
    assert split_point([1000, 10, 10, 10, 10]) == 1
    assert split_point([10, 10, 10, 10]) == 2
