"""The numbers of a score and what thresholds keep of them, beside the plain way to count."""

import math
import random

import numpy as np
import pytest

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.example_predicate import _condition
from wdsflow.filtering.deciding.score_column import ScoreColumn
from wdsflow.filtering.ledger.sample_scores import _shown
from wdsflow.filtering.predicates.values import Unknown


def column(values, samples=None, **more):
    numbers = np.sort(np.array(values, float))
    return ScoreColumn(
        ScoreCall("blur"),
        "number",
        samples=samples or len(values),
        numbers=numbers,
        eligible=numbers,
        **more,
    )


def test_counts_and_quantiles_are_those_of_a_sorted_list():
    rng = random.Random(5)
    for count in (1, 2, 3, 10, 57):
        values = sorted(rng.choice([rng.randrange(9), rng.random()]) for _ in range(count))
        found = column(values, samples=count + 3)
        for least in (-1, *values, 4.5, 99):
            assert found.count_kept(least) == sum(value > least for value in values)
        for share in (0, 0.05, 0.3, 0.5, 0.95, 1):
            assert found.quantile(share) == values[max(math.ceil(round(share * count, 9)) - 1, 0)]


def test_a_threshold_keeps_about_its_share_and_has_few_digits():
    values = [number / 7 for number in range(700)]
    found = column(values)
    for share in (0.1, 0.25, 0.5, 0.9):
        least = found.threshold_for(share)
        assert least is not None
        assert found.count_kept(least) == round(700 * share)
        assert len(str(least)) <= 5
        assert found.frequent_value_at(share) is None
    assert found.round_thresholds() == [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([n * n for n in range(200)], [500, 2000, 4000, 5000, 10000, 15000, 20000, 25000, 30000]),
        ([math.exp(n / 40) for n in range(300)], [2, 5, 10, 20, 50, 100, 200, 500, 1000]),
        ([n / 7 for n in range(20)], [0, 0.5, 0.6, 1, 1.2, 1.5, 1.8, 2, 2.5]),
        ([n / 9 for n in range(25)], [0.2, 0.5, 0.8, 1, 1.4, 1.5, 1.8, 2, 2.5]),
        ([1] * 50 + [2] * 30 + [7] * 20, [1, 5]),
        ([-5.5, 0, 3], [-5, 0]),
        ([math.inf] * 3 + [1.0, 2.0] * 9, [1, 2]),
        ([4, 4], []),
    ],
)
def test_round_thresholds_are_near_the_deciles_and_keep_something(values, expected):
    assert column(values).round_thresholds() == expected


def test_thresholds_for_small_values_mirror_those_for_large_ones():
    rng = random.Random(7)
    for count in (2, 5, 40, 200):
        values = [rng.choice([rng.randrange(9), rng.random() * 5]) for _ in range(count)]
        large, small = column([-value for value in values]), column(values, keeps_small=True)
        for share in (0.1, 0.3, 0.5, 0.7):
            tie = large.frequent_value_at(share)
            assert small.frequent_value_at(share) == (None if tie is None else (-tie[0], tie[1]))
            bound, mirrored = small.threshold_for(share), large.threshold_for(share)
            if bound is None or mirrored is None:
                assert bound is mirrored
                continue
            assert small.count_kept(bound) == sum(value < bound for value in values)
            assert abs(small.count_kept(bound) - share * count) == abs(
                large.count_kept(mirrored) - share * count
            )
    assert column([1, 2, 3], keeps_small=True).predicate(2) == "blur < 2"
    assert column([n / 100 for n in range(1000)], keeps_small=True).round_thresholds() == [
        *range(1, 10)
    ]


@pytest.mark.parametrize(
    ("values", "share", "threshold", "equals"),
    [
        ([], 0.5, None, None),
        ([3.0], 0.5, None, (3.0, 1)),
        ([3.0, 3.0], 0.5, None, (3.0, 2)),
        ([1.0, 3.0], 0.5, 2.0, None),
        ([1.0] * 9 + [2.0], 0.5, 1.0, (1.0, 9)),
        ([1.0] + [2.0] * 9, 0.5, 1.0, (2.0, 9)),
        ([1.0] * 50 + [2.0] * 50, 0.51, 1.0, None),
        ([1.0] * 50 + [2.0] * 50, 0.52, 1.0, (1.0, 50)),
        ([-math.inf, math.inf], 0.5, 0.0, None),
    ],
)
def test_equal_values_keep_thresholds_away_from_a_share(values, share, threshold, equals):
    found = column(values, samples=len(values))
    if not values:
        found.samples = 5
    assert found.threshold_for(share) == threshold
    assert found.frequent_value_at(share) == equals


def test_samples_with_a_value_are_those_without_a_reason():
    found = ScoreColumn(ScoreCall("blur"), "number", samples=20, unreadable=3, missing=4)
    found.failed.update({"truncated": 2, "no-image": 1})
    assert found.computed == 10
    assert found.predicate(2.50) == "blur > 2.5"
    found.where = "width > 1 or height > 1"
    assert found.predicate(3) == "(width > 1 or height > 1) and blur > 3"


def test_twins_whose_neighbours_are_dropped_are_not_counted_as_kept():
    keys, values = ["a", "b", "a", "a", "c", "a"], np.array([3.0, 1, 3, 3, 5, 3])
    found = column(values.tolist())
    found.shards_with_repeated_keys.append((keys, values))
    # At 2, both that follow the first "a" are quarantined.
    assert [found.count_kept(least) for least in (0, 2, 4)] == [6, 3, 1]

    mirrored = column((-values).tolist(), keeps_small=True)
    mirrored.shards_with_repeated_keys.append((keys, -values))
    assert [mirrored.count_kept(most) for most in (0, -2, -4)] == [6, 3, 1]


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        ("number", [5.0, 1.0, 3.0], "blur >= 3"),
        ("number", [4.0, 1.0, 2.0, 3.0], "blur >= 2"),
        ("number", [math.inf, 2.0], "blur >= 2"),
        ("number", [math.inf], ""),
        ("number", [0.98765432], "blur >= 0.98765432"),
        ("number", [1234.56], "blur >= 1234.56"),
        ("number", [1235.44], "blur >= 1235"),
        ("number", [], ""),
        ("boolean", [True, True], "blur"),
        ("boolean", [True, False], "not blur"),
        ("boolean", [], ""),
        ("text", ["a", "b", "b"], 'blur == "b"'),
        ("text", ["x" * 40], f'blur == "{"x" * 40}"'),
        ("text", ["x" * 41], ""),
        ("text", ["x" * 41, "x" * 41, 'say "a"'], 'blur == "say \\"a\\""'),
    ],
)
def test_an_example_keeps_some_of_the_values(kind, values, text):
    assert _condition("blur", kind, values) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "unknown"),
        (Unknown("truncated", "here"), "unknown (truncated)"),
        ([1, None, "a"], '1, unknown, "a"'),
        (True, "True"),
        (0.5, "0.5"),
    ],
)
def test_a_value_is_shown_so(value, text):
    assert _shown(value) == text
