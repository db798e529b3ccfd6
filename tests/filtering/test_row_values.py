"""What a predicate says of samples by their values, and in which order these are computed."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.filtering.drawn_predicates import SCORES, predicates, values
from wdsflow.expressions.evaluator import Evaluator
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.expressions.steps import steps_of
from wdsflow.filtering.deciding.decider import Decider
from wdsflow.filtering.deciding.row_values import results
from wdsflow.filtering.ledger.sample_table import LedgerRow, SampleTable
from wdsflow.filtering.predicates.catalog import parse
from wdsflow.filtering.predicates.values import Unknown

FAILED = Unknown("truncated", "ends at byte 9")


def table_of(*samples: dict[Any, Any]) -> SampleTable:
    """Return samples with these values, by score or by its name."""
    table = SampleTable(LedgerRow(number, "k", 0, 512) for number in range(len(samples)))
    for number, scores in enumerate(samples):
        for name, value in scores.items():
            table.columns[ScoreCall(name) if isinstance(name, str) else name][number] = value
    return table


def judge(text: str, **values: Any) -> tuple[bool | None, str | None]:
    """Return whether to keep, and why it is unknown."""
    table = table_of(values)
    (found,) = results(Evaluator(parse(text, SCORES)), table, table.rows)
    return (None, found.slug) if isinstance(found, Unknown) else (found, None)


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("width > 1 and height > 1", {"width": 1}, (False, None)),
        ("width > 1 and height > 1", {"width": 1, "height": FAILED}, (False, None)),
        ("width > 1 and height > 1", {"width": FAILED, "height": 1}, (False, None)),
        ("width > 1 and height > 1", {"width": 2}, (None, None)),
        ("width > 1 and height > 1", {"width": FAILED}, (None, None)),
        ("width > 1 and height > 1", {"width": FAILED, "height": 2}, (None, "truncated")),
        ("width > 1 or height > 1", {"width": 2}, (True, None)),
        ("width > 1 or height > 1", {"width": FAILED, "height": 2}, (True, None)),
        ("width > 1 or height > 1", {"width": 1, "height": FAILED}, (None, "truncated")),
        ("not width > 1", {"width": FAILED}, (None, "truncated")),
        ("2 < width < height", {"width": 1}, (False, None)),
        ("2 < width < height", {"width": 3}, (None, None)),
        # Waits for the height, then knows the reason.
        (
            "width * height > 1",
            {"width": FAILED},
            (None, None),
        ),
        ("width > 1", {"width": None}, (None, "null")),
        ("width > 1", {"width": math.nan}, (None, "not-finite")),
        ("width > 1", {"width": math.inf}, (None, "not-finite")),
        ("width - height > 1", {"width": math.inf, "height": 1}, (None, "not-finite")),
        ("width / height > 1", {"width": 1, "height": 0}, (None, "no-result")),
        ("width % height > 1", {"width": 1, "height": 0.0}, (None, "no-result")),
    ],
)
def test_what_is_not_known_decides_nothing_and_false_decides_at_once(text, values, expected):
    assert judge(text, **values) == expected


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("blur is None", {}, (None, None)),  # not computed yet is not None yet
        ("blur is None", {"blur": FAILED}, (True, None)),
        ("blur is None", {"blur": None}, (True, None)),
        ("blur is None", {"blur": math.nan}, (True, None)),
        ("blur is None", {"blur": []}, (True, None)),
        ("blur is None", {"blur": 0.0}, (False, None)),
        ("blur is not None", {"blur": FAILED}, (False, None)),
        ("width / height is None", {"width": 1, "height": 0}, (True, None)),
        ("blur is None or blur > 2", {"blur": FAILED}, (True, None)),
        ("blur is None", {"blur": [1.0, None]}, (False, None)),  # every image
        ("any(blur is None)", {"blur": [1.0, None]}, (True, None)),
    ],
)
def test_null_is_what_could_not_be_computed(text, values, expected):
    assert judge(text, **values) == expected


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("width > 2", {"width": [3, 4]}, (True, None)),
        ("width > 2", {"width": [3, 1]}, (False, None)),
        # As above: a condition is tested for each image.
        (
            "not width <= 2",
            {"width": [3, 1]},
            (False, None),
        ),
        ("width > 2 or height > 2", {"width": [3, 1], "height": [1, 3]}, (True, None)),
        ("any(width > 2)", {"width": [3, 1]}, (True, None)),
        ("any(width > 2 and height > 2)", {"width": [3, 1], "height": [1, 3]}, (False, None)),
        ("any(width > 2) and any(height > 2)", {"width": [3, 1], "height": [1, 3]}, (True, None)),
        ("not any(width > 2)", {"width": [3, 1]}, (False, None)),
        ("all(width > 2)", {"width": [3, 1]}, (False, None)),
        ("mean(width) == 2", {"width": [3, 1]}, (True, None)),
        ("min(width) == 1 and max(width) == 3", {"width": [3, 1]}, (True, None)),
        ("mean(width) == 3 and min(width) == 3", {"width": 3}, (True, None)),
        ("width >= mean(width) - 1", {"width": [3, 1]}, (True, None)),
        ("width > height", {"width": [3, 5], "height": 2}, (True, None)),
        ("any(width in (1, 7))", {"width": [3, 1]}, (True, None)),
        ("width > 2", {"width": [3]}, (True, None)),
        ("width > 2", {"width": []}, (None, "null")),
        ("any(width > 2)", {"width": []}, (None, "null")),
        ("not any(width > 2)", {"width": []}, (None, "null")),
        ("all(width > 2)", {"width": []}, (None, "null")),
        ("width > 2", {"width": [3, None]}, (None, "null")),
        ("width > 2", {"width": [1, None]}, (False, None)),
        ("any(width > 2)", {"width": [3, None]}, (True, None)),
        ("any(width > 2)", {"width": [1, None]}, (None, "null")),
        ("min(width) > 2", {"width": [1, None]}, (None, "null")),
        ("width > height", {"width": [3, 4], "height": [1, 2, 3]}, (None, "no-result")),
        ("width > 9 and width > height", {"width": [3, 4], "height": [1, 2, 3]}, (False, None)),
        (
            "width > 2 and words_in_caption > 2",
            {"width": [3, 4], "words_in_caption": [5, 5, 5]},
            (True, None),
        ),
    ],
)
def test_several_images_are_tested_one_by_one(text, values, expected):
    assert judge(text, **values) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("contains(caption, 'cat')", True),
        ("'Cat' in caption", False),
        ("contains(lower(caption), 'two')", True),
        ("upper(strip(caption)) == 'TWO CATS, ÄLTER'", True),
        ("startswith(caption, ' Two')", True),
        ("endswith(caption, 'Älter')", True),
        ("length(caption) == 16", True),
        ("words(caption) == 3", True),
        ("abs(length(caption) - 20) == 4", True),
        (r"matches(caption, 'c\w+s')", True),
        ("matches(caption, '^cats$')", False),
        ("matches(caption, '(?i)ÄLTER$')", True),
        (r"matches(caption, r'\bcat\b')", False),
        ("caption > ' A' and caption < ' Z'", True),
    ],
)
def test_functions_of_texts(text, expected):
    assert judge(text, caption=" Two cats, Älter") == (expected, None)


def test_no_caption_stops_a_run():
    caption = "a" * 100_000
    assert judge("matches(caption, '(a+)+b')", caption=caption) == (False, None)
    assert judge("matches(caption, '^(a|a)*$')", caption="a" * 5000 + "\\udcff") == (False, None)


def test_rows_with_different_scores_are_judged_together():
    table = table_of({"width": 3}, {"width": 1}, {"width": 3, "blur": 1}, {"blur": 9}, {})
    both, either = (
        Evaluator(parse(f"width > 2 {word}", SCORES))
        for word in ("and blur > 2", "or blur is None")
    )
    assert results(both, table, table.rows) == [None, False, False, None, None]
    assert results(either, table, table.rows) == [True, None, True, None, None]


def test_the_first_false_term_is_named_else_the_first_unknown_one():
    expression = parse("width > 1 and height > 1 and blur > 1", SCORES)
    decider = Decider(expression, steps_of(expression))
    table = table_of(
        {"width": FAILED, "height": 0, "blur": 0},
        {"width": 2, "height": None, "blur": FAILED},
        {"width": 2, "height": 2, "blur": 2},
    )
    rows = table.rows
    decider.advance(table, rows)
    assert [row.judgement.term for row in rows] == [decider.terms[1], decider.terms[1], None]
    assert rows[0].judgement.keep is False
    assert rows[1].judgement.unknown == Unknown("null")
    assert rows[2].judgement.keep


def test_cheap_scores_come_first_and_none_after_the_decision():
    text = "similarity > 0.3 and (blur > 2 or words_in_caption > 9) and words_in_caption > 2 and width > 3"
    expression = parse(text, SCORES)
    decider = Decider(expression, steps_of(expression))
    assert [step.tier for step in decider.steps] == ["header", "text", "pixels", "model"]
    known = {"width": 9, "words_in_caption": 5, "blur": 1, "similarity": 0.9}
    table = table_of({}, {}, {})
    answers = {0: known, 1: {**known, "width": 1}, 2: {**known, "words_in_caption": 10}}
    asked = []

    def compute(call: ScoreCall, rows: Sequence[LedgerRow]) -> None:
        for row in rows:
            asked.append((row.number, str(call)))
            table.columns[call][row.number] = answers[row.number][str(call)]

    decider.advance(table, table.rows, compute)
    assert asked == [
        (0, "width"),
        (1, "width"),
        (2, "width"),
        (0, "words_in_caption"),
        (2, "words_in_caption"),
        # For the third sample, its words have decided what the blur may decide.
        (0, "blur"),
        (2, "similarity"),
    ]
    assert [row.judgement.keep for row in table.rows] == [False, False, True]


@given(predicates, st.lists(values, min_size=1, max_size=4), st.data())
def test_what_is_computed_step_by_step_decides_as_all_scores_at_once(text, samples, data):
    expression = parse(text, SCORES)
    decider = Decider(expression, steps_of(expression))
    known = table_of(*samples)
    # Some scores may be there before, as in a ledger.
    there = [data.draw(st.sets(st.sampled_from(list(sample)))) for sample in samples]
    stepwise = table_of(
        *(
            {call: sample[call] for call in calls}
            for sample, calls in zip(samples, there, strict=True)
        )
    )

    def compute(call: ScoreCall, rows: Sequence[LedgerRow]) -> None:
        for row in rows:
            assert row.number not in stepwise.columns[call]
            stepwise.columns[call][row.number] = samples[row.number][call]

    decider.advance(known, known.rows)
    decider.advance(stepwise, stepwise.rows, compute)
    assert [row.judgement for row in stepwise.rows] == [row.judgement for row in known.rows]
    assert None not in [row.judgement for row in known.rows]
    both = results(decider.evaluator, known, known.rows)
    for row, result in zip(known.rows, both, strict=True):
        assert row.judgement.keep == (None if isinstance(result, Unknown) else result)
