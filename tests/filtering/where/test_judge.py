import math
from typing import Any

import numpy as np
import pytest

from tests.filtering.where.predicates import SCORES
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.predicates.catalog import parse
from wdsflow.filtering.predicates.values import Unknown

FAILED = Unknown("truncated", "ends at byte 9")


def judge(text: str, **values: Any) -> tuple[bool | None, str | None]:
    """Return whether to keep, and why it is unknown."""
    found = parse(text, SCORES).judge({ScoreCall(name): value for name, value in values.items()})
    return found.keep, found.unknown and found.unknown.slug


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
        ("width * height > 1", {"width": FAILED}, (None, None)),  # waits for the height, then knows the reason
        ("width > 1", {"width": None}, (None, "null")),
        ("width > 1", {"width": math.nan}, (None, "not-a-number")),
        ("width > 1", {"width": math.inf}, (True, None)),
        ("width - height > 1", {"width": math.inf, "height": math.inf}, (None, "not-a-number")),
        ("width / height > 1", {"width": 1, "height": 0}, (None, "division-by-zero")),
        ("width % height > 1", {"width": 1, "height": 0.0}, (None, "division-by-zero")),
        ("width / 2.5 > 1", {"width": 10**400}, (None, "overflow")),
        ("width > 1", {"width": "3"}, (None, "wrong-kind")),
        ("width > 0", {"width": True}, (None, "wrong-kind")),
        ("duplicate", {"duplicate": 1}, (None, "wrong-kind")),
        ("width > 1", {"width": np.float32(1.5)}, (True, None)),
        ("duplicate", {"duplicate": np.True_}, (True, None)),
        ("width > 1", {"width": np.zeros(3)}, (None, "wrong-kind")),
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
        ("blur is None", {"blur": [1.0, FAILED]}, (False, None)),  # every image
        ("any(blur is None)", {"blur": [1.0, FAILED]}, (True, None)),
    ],
)
def test_null_is_what_could_not_be_computed(text, values, expected):
    assert judge(text, **values) == expected


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("width > 2", {"width": [3, 4]}, (True, None)),
        ("width > 2", {"width": [3, 1]}, (False, None)),
        ("not width <= 2", {"width": [3, 1]}, (False, None)),  # as above: a condition is tested for each image
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
        ("width > 2", {"width": []}, (None, "nothing-to-score")),
        ("any(width > 2)", {"width": []}, (None, "nothing-to-score")),
        ("not any(width > 2)", {"width": []}, (None, "nothing-to-score")),
        ("all(width > 2)", {"width": []}, (None, "nothing-to-score")),
        ("width > 2", {"width": [3, FAILED]}, (None, "truncated")),
        ("width > 2", {"width": [1, FAILED]}, (False, None)),
        ("any(width > 2)", {"width": [3, FAILED]}, (True, None)),
        ("any(width > 2)", {"width": [1, None]}, (None, "null")),
        ("min(width) > 2", {"width": [1, FAILED]}, (None, "truncated")),
        ("width > height", {"width": [3, 4], "height": [1, 2, 3]}, (None, "different-counts")),
        ("width > 9 and width > height", {"width": [3, 4], "height": [1, 2, 3]}, (False, None)),
        ("width > 2 and words_in_caption > 2", {"width": [3, 4], "words_in_caption": [5, 5, 5]}, (True, None)),
    ],
)
def test_several_images_are_tested_one_by_one(text, values, expected):
    assert judge(text, **values) == expected


# Widths, heights and bytes of three of Data-Juicer's test images, and what its unit tests say is kept.
IMAGES = {1: (336, 336, 171427), 2: (640, 480, 189406), 3: (342, 500, 113695)}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("any(0.8 <= aspect_ratio <= 1.2)", [(1,), (1, 2), (1, 3)]),
        ("all(0.8 <= aspect_ratio <= 1.2)", [(1,)]),
        ("0.8 <= aspect_ratio <= 1.2", [(1,)]),
        ("any(width >= 400 and height >= 400)", [(2,), (1, 2), (2, 3)]),
        ("any(width <= 500 and height <= 500)", [(1,), (3,), (1, 2), (2, 3), (1, 3)]),
        ("any(120 * KiB <= bytes <= 180 * KiB)", [(1,), (1, 2), (1, 3)]),
        ("120 * KiB <= bytes <= 180 * KiB", [(1,)]),
    ],
)
def test_any_and_all_keep_what_data_juicer_keeps(text, kept):
    where = parse(text, SCORES)
    found = []
    for sample in [(1,), (2,), (3,), (1, 2), (2, 3), (1, 3)]:
        sizes = [IMAGES[number] for number in sample]
        columns: dict[str, Any] = {
            "width": [width for width, _, _ in sizes],
            "height": [height for _, height, _ in sizes],
            "bytes": [size for _, _, size in sizes],
            "aspect_ratio": [width / height for width, height, _ in sizes],
        }
        if where.judge({ScoreCall(name): column for name, column in columns.items()}).keep:
            found.append(sample)
    assert found == kept


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
    assert judge("matches(caption, '^(a|a)*$')", caption="a" * 5000 + "\udcff") == (False, None)


def test_the_first_false_term_is_named_else_the_first_unknown_one():
    where = parse("width > 1 and height > 1 and blur > 1", SCORES)
    width, height, blur = where.calls
    assert where.judge({width: FAILED, height: 0, blur: 0}).term == where.terms[1]
    assert where.judge({width: 2, height: None, blur: FAILED}).term == where.terms[1]
    assert where.judge({width: 2, height: 2, blur: 2}) == (True, None, None)
