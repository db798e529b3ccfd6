"""The data behind the page of a run.

Covers thresholds taken from a predicate, codes of values, boxes, and results of other terms.
"""

import base64
import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.ledger.sample_table import LedgerRow, SampleTable
from wdsflow.filtering.page.choices import choice
from wdsflow.filtering.page.edges import codes_of, edges_of
from wdsflow.filtering.page.near_samples import near_samples
from wdsflow.filtering.page.predicate_parts import Limit, PredicateParts, parts_of
from wdsflow.filtering.page.row_results import repeated_keys_of, results_of
from wdsflow.filtering.page.sliders import SliderPicture, for_script, slider
from wdsflow.filtering.predicates.catalog import parse
from wdsflow.filtering.predicates.values import NOT_COMPUTED, Unknown
from wdsflow.stages.scores import all_scores
from wdsflow.text.words import number_text

BLUR, WIDTH, FORMAT, DUPLICATE = (
    ScoreCall("blur"),
    ScoreCall("width"),
    ScoreCall("format"),
    ScoreCall("duplicate"),
)
NONE = PredicateParts({}, {}, ())


@pytest.mark.parametrize(
    ("where", "low", "high", "rest"),
    [
        ("", {}, {}, []),
        ("  ", {}, {}, []),
        ("blur > 5", {BLUR: Limit(5, strict=True)}, {}, []),
        ("blur >= 5", {BLUR: Limit(5, strict=False)}, {}, []),
        ("5 < blur", {BLUR: Limit(5, strict=True)}, {}, []),
        ("5 >= blur", {}, {BLUR: Limit(5, strict=False)}, []),
        ("3 <= blur < 7.5", {BLUR: Limit(3, strict=False)}, {BLUR: Limit(7.5, strict=True)}, []),
        ("9 > blur >= 3", {BLUR: Limit(3, strict=False)}, {BLUR: Limit(9, strict=True)}, []),
        (
            "blur > 5 and width <= 9",
            {BLUR: Limit(5, strict=True)},
            {WIDTH: Limit(9, strict=False)},
            [],
        ),
        ("blur > 5 and blur > 6", {BLUR: Limit(5, strict=True)}, {}, ["blur > 6"]),
        ("3 < blur > 5", {}, {}, ["3 < blur > 5"]),
        ("blur == 5", {}, {}, ["blur == 5"]),
        ("3 == blur", {}, {}, ["3 == blur"]),
        ("blur != 5", {}, {}, ["blur != 5"]),
        ("blur < width", {}, {}, ["blur < width"]),
        ("blur * 2 < 5", {}, {}, ["blur * 2 < 5"]),
        ("3 < blur < width", {}, {}, ["3 < blur < width"]),
        ("3 < width and not blur < 5", {WIDTH: Limit(3, strict=True)}, {}, ["not blur < 5"]),
    ],
)
def test_thresholds_of_single_scores_become_ends_of_sliders_and_other_terms_stay(
    where, low, high, rest
):
    parts = parts_of(where)
    assert (parts.low, parts.high, [str(term) for term in parts.rest]) == (low, high, rest)
    assert not parts.ticked
    assert not parts.compared


@pytest.mark.parametrize(
    ("where", "allowed"),
    [
        ("duplicate", (DUPLICATE, (True,))),
        ("not duplicate", (DUPLICATE, (False,))),
        ("duplicate == True", (DUPLICATE, (True,))),
        ("duplicate == False", (DUPLICATE, (False,))),
        ("duplicate != True", (DUPLICATE, (False,))),
        ("duplicate != False", (DUPLICATE, (True,))),
        ("format == 'jpeg'", (FORMAT, ("jpeg",))),
        ("'png' == format", (FORMAT, ("png",))),
        ("format in ('jpeg', 'png')", (FORMAT, ("jpeg", "png"))),
        ("format != 'jpeg'", None),
        ("not (format == 'jpeg')", None),
        ("startswith(format, 'j')", None),
        ("duplicate or format == 'jpeg'", None),
        ("blur in (1, 2)", None),
    ],
)
def test_allowed_values_of_a_score_become_ticked_boxes(where, allowed):
    parts = parts_of(where)
    assert list(parts.ticked.values()) == ([allowed] if allowed else [])
    assert len(parts.rest) == (0 if allowed else 1)


def test_a_score_whose_values_are_chosen_twice_has_boxes_for_the_first_term_alone():
    parts = parts_of("format in ('jpeg', 'png') and format == 'png' and duplicate")
    assert list(parts.ticked.values()) == [(FORMAT, ("jpeg", "png")), (DUPLICATE, (True,))]
    assert [str(term) for term in parts.rest] == ['format == "png"']


def test_a_term_that_compares_kept_samples_is_neither_a_slider_nor_a_box():
    parts = parts_of(
        "rank_percent('blur', among='kept') <= 30 and duplicate(among='kept') and rank_percent('blur') < 9"
    )
    assert [str(term).partition("(")[0] for term in parts.compared] == ["rank_percent", "duplicate"]
    assert not parts.ticked
    assert not parts.rest
    assert list(parts.high.values()) == [Limit(9, strict=True)]


numbers = st.floats(-1e6, 1e6, allow_nan=False) | st.integers(-20, 20).map(float)


@given(
    st.lists(numbers, min_size=1, max_size=60),
    st.lists(numbers, max_size=3),
    st.sampled_from([3, 10, 100]),
)
def test_codes_compare_with_an_edge_as_the_values_do(
    values: list[float], also: list[float], most: int
):
    edges = edges_of(np.array(values), most, [*also, math.inf])
    assert edges == sorted(set(edges))
    assert set(also) <= set(edges)
    assert len(edges) <= most + len(also)
    codes = codes_of(np.array(values), edges)
    if len(set(values)) <= most:
        assert len(set(codes.tolist())) == len(set(values))
        if all(len(number_text(value)) <= 9 for value in values):
            assert set(edges) == {*values, *also}
    for value, code in zip(values, codes_of(np.array(values), edges).tolist(), strict=True):
        for k, edge in enumerate(edges):
            assert (value >= edge) == (code >= 2 * k + 1)
            assert (value > edge) == (code >= 2 * k + 2)
            assert (value <= edge) == (code <= 2 * k + 1)
            assert (value < edge) == (code <= 2 * k)


def test_values_without_a_number_between_them_are_their_own_edges():
    third = 1 / 3
    after = float(np.nextafter(third, 1))
    assert edges_of(np.array([third]), 10) == [third]
    assert edges_of(np.array([third, after]), 10)[1:] == [after]


def test_edges_between_values_of_many_digits_have_few():
    draw = random.Random(4)
    for count in (2, 3, 50, 400, 3000):
        values = np.array([draw.random() / 3 for _ in range(count)])
        edges = edges_of(values, 500)
        assert max(len(number_text(edge)) for edge in edges) <= 12
        assert np.mean([len(number_text(edge)) for edge in edges]) <= 8
    values = np.array([1 / 3, 2 / 3, 0.7])
    edges = edges_of(values, 500)
    kept = [[bool(value <= edge) for value in values] for edge in edges] + [[True] * 3]
    assert kept == [[False] * 3, [True, False, False], [True, True, False], [True] * 3]
    assert [sum(values >= edge) for edge in edges] == [3, 2, 1]


def test_a_value_among_no_edges_has_the_code_0():
    assert codes_of(np.array([1.0, -2.0]), []).tolist() == [0, 0]


def script_of(
    values: list[Any], start: PredicateParts = NONE, *, keeps: bool = False, scores: int = 1
) -> Any:
    found = slider(values, BLUR, start, scores=scores, unknown_keeps=keeps)
    if found is None:
        return None
    script = for_script(found, start, [SliderPicture(row=0, picture=7, value=2.0)])
    kind = np.uint8 if script["bits"] == 8 else np.uint16

    def read(text: str | None) -> Any:
        return None if text is None else np.frombuffer(base64.b64decode(text), kind).tolist()

    return {**script, "low": read(script["low"]), "high": read(script["high"])}


def test_a_slider_has_a_code_for_each_sample_the_ends_of_several_values_and_why_there_is_none():
    start = PredicateParts({BLUR: Limit(2.5, strict=True)}, {}, ())
    values = [2, 2.5, Unknown("x"), NOT_COMPUTED, [1, 4], [], [1, Unknown("x")], math.nan, True, 4]
    found = script_of(values, start)
    assert found["name"] == "blur"
    assert found["edges"] == ["1", "2", "2.5", "4"]
    assert found["low"] == [3, 5, 255, 254, 1, 255, 255, 255, 1, 7]
    assert found["high"] == [3, 5, 255, 254, 7, 255, 255, 255, 1, 7]
    assert found["start"] == {"low": [2, True], "high": None}
    assert found["pictures"] == [[3, 3, 7, "2", 0]]
    assert found["chart"]["marks"] == (2.5,)
    assert sum(found["chart"]["counts"]) == 5


def test_values_that_are_unknown_do_not_count_where_unknown_samples_are_kept():
    found = script_of([[1, Unknown("x")], [Unknown("x")], [3, 2]], keeps=True)
    assert found["low"] == [1, 255, 3]
    assert found["high"] == [1, 255, 4]  # above the last edge: edges are of the smallest values


def test_the_high_codes_are_left_out_if_they_are_those_of_the_low_ones():
    assert script_of([1, 2, 3])["high"] is None
    assert script_of([1, [2, 3]])["high"] == [1, 4]


def test_a_score_without_a_finite_value_has_no_slider():
    assert script_of([Unknown("x"), NOT_COMPUTED, math.inf, []]) is None
    assert script_of([]) is None


@pytest.mark.parametrize(
    ("samples", "scores", "edges", "bits"), [(126, 1, 126, 8), (127, 1, 127, 16), (600, 1, 500, 16), (1000, 1000, 1000, 16), (1000, 1001, 120, 8)]
)  # fmt: skip
def test_codes_take_a_byte_if_they_fit_and_many_codes_have_few_edges(samples, scores, edges, bits):
    found = script_of(list(range(samples)), scores=scores)
    assert (len(found["edges"]), found["bits"]) == (min(edges, 500), bits)


def test_twins_are_counted_by_shard_and_only_neighbours_follow_each_other():
    def row(number: int, key: str, trouble: str = "") -> LedgerRow:
        made = LedgerRow(number, key, 0, 0)
        made.trouble = trouble
        return made

    first = [
        row(0, "a"),
        row(1, "a"),
        row(2, "b"),
        row(3, "bad", "truncated"),
        row(4, "a"),
        row(5, "c"),
    ]
    second = [row(0, "c"), row(1, "d"), row(2, "d")]
    assert repeated_keys_of([SampleTable(first), SampleTable(second)]) == [
        [0, 1, 0],
        [1, 1, 1],
        [3, 1, 0],
        [6, 5, 0],
        [7, 5, 1],
    ]
    assert repeated_keys_of([SampleTable([row(0, "a"), row(2, "a")])]) == [[0, 1, 0], [1, 1, 0]]
    assert repeated_keys_of([]) == []


def test_results_of_other_terms_are_false_first_then_not_computed_then_unknown():
    terms = parse("blur > 5 and width > 5", all_scores()).terms
    values: list[dict[ScoreCall, Any]] = [
        {BLUR: 9, WIDTH: 9},
        {BLUR: 1},
        {WIDTH: 1, BLUR: Unknown("x")},
        {BLUR: 9},
        {BLUR: Unknown("x")},
        {BLUR: Unknown("x"), WIDTH: 9},
    ]
    samples = SampleTable(LedgerRow(number, "", 0, 0) for number in range(len(values)))
    for row, each in zip(samples.rows, values, strict=True):
        for call, value in each.items():
            samples.columns[call][row.number] = value
    assert list(base64.b64decode(results_of([samples], terms))) == [1, 0, 0, 3, 3, 2]


def test_boxes_are_the_most_frequent_values_and_the_ticked_ones_and_masks_say_which_a_sample_has():
    values = [
        "jpeg",
        "png",
        "jpeg",
        Unknown("x"),
        NOT_COMPUTED,
        ["png", "gif"],
        "a\nb",
        [],
        [Unknown("x"), "jpeg"],
        "jpeg",
    ]
    found = choice(values, FORMAT, ["webp", "png"])
    assert found is not None
    assert found.shown == [("jpeg", 4), ("png", 2), ("gif", 1), ("webp", 0)]
    script = found.for_script()
    assert script["literals"] == ['"jpeg"', '"png"', '"gif"', '"webp"']
    assert script["start"] == [False, True, False, True]
    other, unknown, pending = 1 << 20, 1 << 21, 1 << 22
    assert (script["unknown"], script["pending"], script["bits"]) == (unknown, pending, 8)
    masks = [script["masks"][code] for code in base64.b64decode(script["codes"])]
    assert masks == [1, 2, 1, unknown, pending, 2 | 4, other, unknown, unknown | 1, 1]


def test_twenty_values_have_a_box_and_what_cannot_be_written_has_none():
    found = choice([f"{number:02}" for number in range(22)] + ["21"], FORMAT, ["00"])
    assert found is not None
    assert [text for text, _ in found.shown] == [
        "21",
        "00",
        *(f"{number:02}" for number in range(1, 19)),
    ]
    assert choice(["x" * 201, "a\tb", 5, Unknown("x")], FORMAT) is None
    longest = choice(["x" * 200], FORMAT, ["x" * 201])
    assert longest is not None
    assert (longest.shown, longest.ticked) == ([("x" * 200, 1)], ())
    many = choice(["a"], FORMAT, [str(number) for number in range(21)])
    assert many is not None
    assert many.ticked == ()
    most = choice(["a"], FORMAT, [str(number) for number in range(20)])
    assert most is not None
    assert (len(most.ticked), len(most.values)) == (20, 20)


def test_more_than_256_sets_of_values_take_two_bytes_each():
    values = [[chr(97 + bit) for bit in range(9) if number >> bit & 1] for number in range(1, 258)]
    few, many = choice(values[:256], FORMAT), choice(values, FORMAT)
    assert few is not None
    assert many is not None
    assert (few.for_script()["bits"], many.for_script()["bits"]) == (8, 16)
    assert np.frombuffer(base64.b64decode(many.for_script()["codes"]), np.uint16).tolist() == list(
        range(257)
    )


def test_truth_values_are_written_as_in_predicates():
    found = choice([True, False, False], DUPLICATE, [False])
    assert found is not None
    assert found.shown == [("False", 2), ("True", 1)]
    assert found.for_script()["literals"] == ["False", "True"]


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (None, None, [*range(6), *range(94, 100)]),
        (Limit(50, strict=False), None, [*range(6), *range(44, 56), *range(94, 100)]),
        (Limit(50, strict=True), None, [*range(6), *range(45, 57), *range(94, 100)]),
        (None, Limit(50, strict=False), [*range(6), *range(45, 57), *range(94, 100)]),
        (None, Limit(50, strict=True), [*range(6), *range(44, 56), *range(94, 100)]),
        (Limit(2, strict=False), None, [*range(8), *range(94, 100)]),
    ],
)
def test_samples_at_the_ends_and_around_a_cut_are_shown(low, high, shown):
    start = PredicateParts({BLUR: low} if low else {}, {BLUR: high} if high else {}, ())
    found = slider([*range(100), NOT_COMPUTED], BLUR, start, scores=1, unknown_keeps=False)
    assert found is not None
    assert near_samples(found, start, len(shown)) == shown
    assert near_samples(found, start, 1000) == list(range(100))
    few = near_samples(found, start, len(shown) + 2)
    assert few == sorted({*shown, 0, 99})
    assert near_samples(found, start, len(shown) + 3) == sorted({*shown, 0, 49, 99})
