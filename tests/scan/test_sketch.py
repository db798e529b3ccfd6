"""Summaries of many values against exact counts."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from wdsflow.scan.frequent import FrequentValues
from wdsflow.scan.sketches import smallest_hashes


@given(st.lists(st.integers(0, 30), max_size=300))
def test_frequent_values_are_never_missed_nor_overcounted(values: list[int]) -> None:
    frequent: FrequentValues[int] = FrequentValues(4)
    for value in values:
        frequent.add(value)
    exact = Counter(values)

    for value, count in frequent.counts().items():
        assert count <= exact[value]
        assert exact[value] - count <= len(values) / 5
    for value, count in exact.items():
        if count > len(values) / 5 + 1:
            assert value in frequent.counts()


def test_names_that_are_not_utf8_have_hashes_too() -> None:
    assert len(smallest_hashes({"a\udcff", "b"}, 8)) == 2


def test_counts_of_a_stream_longer_than_a_block_are_lower_bounds():
    frequent = FrequentValues(2)
    for number in range(10_000):
        frequent.add("a" if number % 2 else f"only {number}")
    assert frequent.counts() == {"a": 4_997}
    frequent = FrequentValues(1)
    for value in "aab":
        frequent.add(value)
    assert frequent.counts() == {}
    assert FrequentValues(1).counts() == {}
