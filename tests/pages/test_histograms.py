"""Histograms hold every value once, in bars that a person can read."""

import math
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wdsflow.filtering.page.edges import codes_of, edges_of
from wdsflow.pages.histograms import chart, number_label, round_step
from wdsflow.text.words import number_text, roundest_after

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


@given(
    st.lists(numbers, min_size=1, max_size=60), st.integers(2, 20), st.lists(numbers, max_size=2)
)
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
    within, beyond = (
        chart("name", "Title", range(1000)),
        chart("name", "Title", [*range(1000), 10**6]),
    )
    assert within is not None
    assert beyond is not None
    assert "beyond" not in within.summary
    assert "the bars at the ends hold all beyond them" in beyond.summary


def steps(first, width, count):
    return tuple(float(f"{(first + at) * width:.10g}") for at in range(count))


@pytest.mark.parametrize(
    ("values", "lefts", "counts", "width", "summary"),
    [
        ([1, 2, 2, 3], (1.0, 2.0, 3.0), (1, 2, 1), 1.0, "median 2, 1 to 3"),
        ([3], (3.0,), (1,), 1.0, "median 3, 3 to 3"),
        ([0.5] * 3, (0.0,), (3,), 1.0, "median 0.5, 0.5 to 0.5"),
        (range(101), steps(0, 2, 51), (2,) * 50 + (1,), 2.0, "median 50, 0 to 100"),
        (range(-50, 1), steps(-50, 1, 51), (1,) * 51, 1.0, "median -25, -50 to 0"),
        ([7] * 1000 + [9] * 3, (7.0, 8.0, 9.0), (1000, 0, 3), 1.0, "median 7, 7 to 9"),
        (
            [256] * 399 + [20_000],
            steps(0, 500, 41),
            (399, *[0] * 39, 1),
            500.0,
            "median 256, 256 to 20,000",
        ),
        (
            [*range(1000), 10**6],
            steps(0, 20, 50),
            (20,) * 49 + (21,),
            20.0,
            "median 500, 0 to 1,000,000; the bars at the ends hold all beyond them",
        ),
        (
            [-(10**6), *range(1000)],
            steps(0, 20, 50),
            (21,) + (20,) * 49,
            20.0,
            "median 499, -1,000,000 to 999; the bars at the ends hold all beyond them",
        ),
        (
            [1e-9, 2e-9],
            steps(50, 2e-11, 51),
            (1, *[0] * 49, 1),
            2e-11,
            "median 1e-09, 1e-09 to 2e-09",
        ),
        ([1e16, 1e16], (1e16,), (2,), 1e7, "median 1e+16, 1e+16 to 1e+16"),
    ],
)
def test_bars_begin_at_round_numbers(values, lefts, counts, width, summary):
    found = chart("name", "Title", list(values))
    assert (found.lefts, found.counts, found.width, found.summary) == (
        lefts,
        counts,
        width,
        summary,
    )


def test_bars_reach_to_the_lines():
    found = chart("name", "Title", [-5, 5], marks=[-20, 20], marked="limits")
    assert (found.lefts, found.counts.index(1), sum(found.counts)) == (steps(-20, 1, 41), 15, 2)
    assert (found.summary, found.marks) == ("median -5, -5 to 5; line: limits", (-20, 20))
    assert found.for_script() == {
        "lefts": found.lefts,
        "counts": found.counts,
        "width": 1.0,
        "marks": (-20, 20),
    }


@pytest.mark.parametrize(
    ("least", "whole", "step"),
    [
        *[
            (1.0, False, 1.0),
            (1.1, False, 2.0),
            (2.0, False, 2.0),
            (2.1, False, 5.0),
            (5.1, False, 10.0),
        ],
        *[
            (0.3, True, 1.0),
            (0.3, False, 0.5),
            (99.0, True, 100.0),
            (0.0, True, 1.0),
            (-3.0, False, 1.0),
        ],
        (math.inf, False, 1.0),
    ],
)
def test_a_step_is_1_2_or_5_times_a_power_of_ten(least, whole, step):
    assert round_step(least, whole=whole) == step


def test_numbers_are_shown_with_four_digits_or_whole():
    shown = [
        number_label(value)
        for value in (0.0, 1234567.0, 0.123456, 12345.5, 1e15, 999e12, math.inf, -2.0)
    ]
    assert shown == [
        "0",
        "1,234,567",
        "0.1235",
        "1.235e+04",
        "1e+15",
        "999,000,000,000,000",
        "inf",
        "-2",
    ]
