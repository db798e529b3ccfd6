"""Histograms hold every value once, in bars that a person can read."""

import math
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wdsflow.filtering.page.score_codes import codes_of, edges_of
from wdsflow.pages.histograms import chart
from wdsflow.text.round_numbers import number_text, roundest_after

numbers = st.floats(-1e6, 1e6) | st.integers(-1000, 1000).map(float)


@given(st.lists(numbers, min_size=1), st.lists(numbers, max_size=2))
def test_every_value_is_in_one_bar_and_lines_are_within(values, marks):
    found = chart("name", "Title", [*values, math.nan], marks=marks)
    assert found is not None
    assert sum(found.counts) == len(values)
    assert len(found.lefts) == len(found.counts) <= 200
    end = found.lefts[-1] + found.width
    assert all(found.lefts[0] <= mark <= end for mark in marks)


def test_few_values_far_from_all_others_are_seen():
    found = chart("name", "Title", [256.0] * 399 + [20_000.0])
    assert found is not None
    assert (found.counts[0], found.counts[-1]) == (399, 1)


@pytest.mark.parametrize(
    "values", [[-1e308, 1e308], [1e300, 1e300], [0.1, 0.1 + 1e-12], [1e15, 1e15 + 2], [-1e308, 0.5]]
)
def test_bars_of_huge_and_of_nearly_equal_numbers_begin_at_different_numbers(values):
    found = chart("name", "Title", [*values, math.inf])
    assert found is not None
    assert sum(found.counts) == len(values)
    ends = [*found.lefts, found.lefts[-1] + found.width]
    assert all(one < other for one, other in pairwise(ends))


def test_nothing_is_drawn_of_nothing():
    assert chart("name", "Title", [math.nan]) is None


@given(st.lists(numbers, min_size=1, max_size=60), st.integers(2, 20), st.lists(numbers, max_size=2))
def test_codes_say_of_each_value_and_edge_what_the_numbers_say(values, most, also):
    import numpy as np

    edges = edges_of(np.array(values), most, also)
    assert edges == sorted(set(edges))
    assert len(edges) <= most + len(also)
    assert [float(number_text(edge)) for edge in edges] == edges
    for value, code in zip(values, codes_of(np.array(values), edges).tolist(), strict=True):
        for index, edge in enumerate(edges):
            assert (value >= edge) == (code >= 2 * index + 1)
            assert (value > edge) == (code >= 2 * index + 2)


@given(numbers, numbers)
def test_an_edge_of_few_digits_divides_as_the_value_does(one, other):
    below, value = min(one, other), max(one, other)
    assume(below < value)
    edge = roundest_after(below, value)
    assert below < edge <= value
    assert digits(edge) <= digits(value)


def digits(number: float) -> int:
    return len(Decimal(repr(number)).normalize().as_tuple().digits)


def test_values_beyond_the_ends_are_said_to_be_in_the_bars_there():
    within, beyond = chart("name", "Title", range(1000)), chart("name", "Title", [*range(1000), 10**6])
    assert within is not None
    assert beyond is not None
    assert "beyond" not in within.summary
    assert "the bars at the ends hold all beyond them" in beyond.summary
