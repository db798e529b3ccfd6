"""The smallest part that fails is found, and found with few calls."""

from hypothesis import given
from hypothesis import strategies as st

from wdsflow.bisection.bisect_shards import minimize


@given(
    st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), min_size=1, max_size=5)))
)
def test_what_fails_together_is_all_that_is_left(case):
    number, guilty = case
    assert minimize(range(number), lambda part: guilty <= set(part)) == sorted(guilty)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12), st.integers(2, 7))
def test_nothing_more_can_be_left_out(weights, some):
    def fails(part):
        assert part
        return sum(part) % some == sum(weights) % some

    left = minimize(weights, fails)
    assert fails(left)
    assert len(left) == 1 or not any(fails(left[:at] + left[at + 1 :]) for at in range(len(left)))


def test_one_of_many_takes_few_calls():
    calls = []

    def fails(part):
        calls.append(len(part))
        return 17_123 in part

    assert minimize(range(20_000), fails) == [17_123]
    assert len(calls) <= 31
