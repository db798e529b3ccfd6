"""What expressions say, and their canonical form."""

import math
import pickle
from typing import Any

import pyarrow as pa
import pytest

from tests.expressions.catalog import CATALOG
from tests.expressions.tables import TYPES, window
from wdsflow.expressions.evaluator import Evaluator
from wdsflow.expressions.parsing import parse
from wdsflow.expressions.score_call import ScoreCall

FAILED = None


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("min(width)>=200   and   not duplicate", "min(width) >= 200 and not duplicate"),
        ("bytes < 1.5 * MB and bytes >= 200*KiB", "bytes < 1500000.0 and bytes >= 204800"),
        ("200<=width<4_000", "200 <= width < 4000"),
        ("not 1 <= width <= 2", "not 1 <= width <= 2"),
        ("language in ['en', \"de\",]", 'language in ("en", "de")'),
        ("not language in ('en',)", 'language not in ("en",)'),
        ("'dog' not in lower(caption)", '"dog" not in lower(caption)'),
        ("(width > 1 and height > 1) and blur > 2", "width > 1 and height > 1 and blur > 2"),
        ("width > 1 or height > 1 and blur > 2", "width > 1 or height > 1 and blur > 2"),
        ("(width > 1 or height > 1) and blur > 2", "(width > 1 or height > 1) and blur > 2"),
        ("not (width > 1 or duplicate)", "not (width > 1 or duplicate)"),
        (
            "(width - height) - (blur - 1) < -2 * -(blur + 3)",
            "width - height - (blur - 1) < -2 * -(blur + 3)",
        ),
        ("(width % 2) * 3 // (4 * blur) == 0", "width % 2 * 3 // (4 * blur) == 0"),
        ("width / height is not None", "width / height is not None"),
        ("not blur is None", "blur is not None"),
        ("any(width > 1 and height > 1)", "any(width > 1 and height > 1)"),
        ("near_duplicate(distance = 3)", "near_duplicate(distance=3)"),
        ("near_duplicate()", "near_duplicate"),
        (
            "near_duplicate(fields=['a','b'], distance=1)",
            'near_duplicate(distance=1, fields=("a", "b"))',
        ),
        ("has('json')", 'has(field="json")'),
        ("(width > 1) == duplicate", "(width > 1) == duplicate"),
        ("width > 1 and width > 1.0e0", "width > 1"),
        (r"key != 'it\'s \\ \d'", r'key != "it' + "'" + r's \\ \\d"'),
        (r"matches(key, r'\d\t')", r'matches(key, "\\d\\t")'),
        (
            "width > (3 if has_url else 5 if duplicate else 7)",
            "width > (3 if has_url else 5 if duplicate else 7)",
        ),
        ("has_url if (width > 3 if duplicate else True) else False", None),
        ("True", "True"),
        ("(\nwidth > 1  # wide\n  and blur > 2\n)", "width > 1 and blur > 2"),
        ("width > 2 + 3 * 4 - -1", "width > 15"),
    ],
)
def test_an_expression_has_one_canonical_form(text: str, canonical: str | None) -> None:
    expression = parse(text, CATALOG)
    assert canonical in (None, str(expression))
    again = parse(str(expression), CATALOG)
    assert (again, str(again), again.scores) == (expression, str(expression), expression.scores)
    assert pickle.loads(pickle.dumps(expression)) == expression


def test_terms_are_the_conditions_of_the_top_level_and_as_they_were_written() -> None:
    expression = parse(
        "min(width)>=200  and\n (bytes < 1.5 * MB or not duplicate) and (height > 1 and blur > 2)",
        CATALOG,
    )
    texts = ["min(width)>=200", "bytes < 1.5 * MB or not duplicate", "height > 1", "blur > 2"]
    assert [term.text for term in expression.terms] == texts
    assert str(expression.terms[1]) == "(bytes < 1500000.0 or not duplicate)"
    assert expression.terms[1].scores == (ScoreCall("bytes"), ScoreCall("duplicate"))
    assert [expression.text[slice(*term.span)] for term in expression.terms] == texts


def test_scores_with_other_settings_are_other_scores() -> None:
    expression = parse(
        "not near_duplicate and not near_duplicate(distance=3) and caption != ''", CATALOG
    )
    assert [str(call) for call in expression.scores] == [
        "near_duplicate",
        "near_duplicate(distance=3)",
        "caption",
    ]
    assert list(expression.kinds.values()) == ["boolean", "boolean", "text"]


def test_an_expression_that_tests_for_none_is_not_monotone() -> None:
    assert not parse("blur > 1 or width > 3 if has_url else True", CATALOG).may_be_missing
    expression = parse("(blur / width) is None or height > 3", CATALOG)
    assert expression.may_be_missing == {ScoreCall("blur"), ScoreCall("width")}


def results(text: str, **columns: Any) -> bool | None:
    """Return the result for one sample; a list has several items."""
    expression = parse(text, CATALOG)
    lists = [call for call in expression.scores if isinstance(columns[call.name], list)]
    arrays = {
        str(call): pa.array(
            [columns[call.name]],
            pa.list_(TYPES[expression.kinds[call]])
            if call in lists
            else TYPES[expression.kinds[call]],
        )
        for call in expression.scores
    }
    decisions = Evaluator(expression).evaluate(window(arrays or {"key": ["a"]}), lists=lists)
    return True if decisions.keep[0] else False if decisions.drop[0] else None


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        ("width > 1 and height > 1", {"width": 1, "height": FAILED}, False),
        ("width > 1 and height > 1", {"width": FAILED, "height": 2}, None),
        ("width > 1 or height > 1", {"width": FAILED, "height": 2}, True),
        ("width > 1 or height > 1", {"width": 1, "height": FAILED}, None),
        ("not width > 1", {"width": FAILED}, None),
        ("2 < width < height", {"width": 1, "height": FAILED}, False),
        ("width > 1", {"width": math.nan}, None),
        ("not width > 1", {"width": math.nan}, None),
        ("width != width", {"width": math.nan}, None),
        ("width > 1", {"width": math.inf}, None),
        ("width * 1e300 * 1e300 > 1", {"width": 1}, True),
        ("width * 1e300 * 1e300 - width * 1e300 * 1e300 == 0", {"width": 1}, None),
        ("width / height > 1", {"width": 1, "height": 0}, None),
        ("width % height > 1", {"width": 1, "height": 0.0}, None),
        ("width // height > 1", {"width": 1, "height": 0.0}, None),
        ("width / 2 == 0.5", {"width": 1}, True),
        ("width // 2 == -2", {"width": -3}, True),
        ("width % 3 == 2", {"width": -1}, True),
        ("width % -3 == -2", {"width": 1}, True),
        ("width // 0.1 == 9", {"width": 1}, True),
        ("width in (1, 2)", {"width": FAILED}, None),
        ("width not in (1, 2)", {"width": FAILED}, None),
        ("width not in (1, 2)", {"width": 3}, True),
        ("(width if has_url else height) > 2", {"width": 3, "height": 1, "has_url": True}, True),
        ("(width if has_url else height) > 2", {"width": 3, "height": 3, "has_url": FAILED}, None),
        ("round(width) == 2", {"width": 2.5}, True),
        ("round(width) == -2", {"width": -1.5}, True),
        ("blur is None", {"blur": FAILED}, True),
        ("blur is None", {"blur": math.nan}, True),
        ("blur is not None", {"blur": 0.0}, True),
        ("width / height is None", {"width": 1, "height": 0}, True),
        ("blur is None or blur > 2", {"blur": FAILED}, True),
    ],
)
def test_what_is_not_known_decides_nothing(
    text: str, columns: dict[str, Any], expected: bool | None
) -> None:
    assert results(text, **columns) is expected


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        ("width > 2", {"width": [3, 4]}, True),
        ("width > 2", {"width": [3, 1]}, False),
        # As above: a condition is tested for each image.
        (
            "not width <= 2",
            {"width": [3, 1]},
            False,
        ),
        ("width > 2 or height > 2", {"width": [3, 1], "height": [1, 3]}, True),
        ("any(width > 2)", {"width": [3, 1]}, True),
        ("any(width > 2 and height > 2)", {"width": [3, 1], "height": [1, 3]}, False),
        ("any(width > 2) and any(height > 2)", {"width": [3, 1], "height": [1, 3]}, True),
        ("not any(width > 2)", {"width": [3, 1]}, False),
        ("all(width > 2)", {"width": [3, 1]}, False),
        ("mean(width) == 2", {"width": [3, 1]}, True),
        ("min(width) == 1 and max(width) == 3", {"width": [3, 1]}, True),
        ("mean(width) == 3 and min(width) == 3", {"width": 3}, True),
        ("width >= mean(width) - 1", {"width": [3, 1]}, True),
        ("width > height", {"width": [3, 5], "height": 2}, True),
        ("width > height", {"width": [3, 5], "height": [2]}, True),
        ("any(width in (1, 7))", {"width": [3, 1]}, True),
        ("width > 2", {"width": []}, None),
        ("any(width > 2)", {"width": []}, None),
        ("not any(width > 2)", {"width": []}, None),
        ("has_url or width > 2", {"width": [], "has_url": True}, True),
        ("width > 2", {"width": [3, None]}, None),
        ("width > 2", {"width": [3, math.nan]}, None),
        ("width > 2", {"width": [1, None]}, False),
        ("any(width > 2)", {"width": [3, None]}, True),
        ("any(width > 2)", {"width": [1, None]}, None),
        ("min(width) > 2", {"width": [1, None]}, None),
        ("mean(width) > 0", {"width": [1, None]}, None),
        ("width > height", {"width": [3, 4], "height": [1, 2, 3]}, None),
        ("width > 9 and width > height", {"width": [3, 4], "height": [1, 2, 3]}, False),
        (
            "width > 2 and words_in_caption > 2",
            {"width": [3, 4], "words_in_caption": [5, 5, 5]},
            True,
        ),
        ("blur is None", {"blur": [1.0, None]}, False),  # every image
        ("any(blur is None)", {"blur": [1.0, None]}, True),
        ("'cat' in caption", {"caption": ["a cat", "two cats"]}, True),
        ("caption in ('a', 'b')", {"caption": ["a", "c"]}, False),
    ],
)
def test_several_images_are_tested_one_by_one(
    text: str, columns: dict[str, Any], expected: bool | None
) -> None:
    assert results(text, **columns) is expected


# Widths, heights and bytes of three of Data-Juicer's test
# images, and what its unit tests say is kept.
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
def test_any_and_all_keep_what_data_juicer_keeps(text: str, kept: list[tuple[int, ...]]) -> None:
    found = []
    for sample in [(1,), (2,), (3,), (1, 2), (2, 3), (1, 3)]:
        sizes = [IMAGES[number] for number in sample]
        columns = {
            "width": [width for width, _, _ in sizes],
            "height": [height for _, height, _ in sizes],
            "bytes": [size for _, _, size in sizes],
            "aspect_ratio": [width / height for width, height, _ in sizes],
        }
        if results(text, **columns):
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
        ("endswith(strip(caption), 'Älter')", True),
        ("length(caption) == 17", True),
        ("words(caption) == 3", True),
        ("abs(length(caption) - 20) == 3", True),
        (r"matches(caption, r'c\w+s')", True),
        ("matches(caption, '^cats$')", False),
        ("matches(caption, '(?i)ÄLTER')", True),
        (r"matches(caption, r'\bcat\b')", False),
        ("caption > ' A' and caption < ' Z'", True),
        ("contains(caption, '')", True),
        ("contains(caption, '%')", False),
        ("matches(caption, '(a+)+b')", False),
    ],
)
def test_functions_of_texts(text: str, expected: bool) -> None:
    assert results(text, caption=" Two cats, Älter\u00a0") is expected


def test_no_text_of_a_caption_stops_a_run() -> None:
    assert results("matches(caption, '(a+)+b')", caption="a" * 100_000) is False


def test_of_case_single_characters_decide() -> None:
    assert results("lower(caption) == 'straße'", caption="STRAßE") is True
    assert results("length(upper(caption)) == 6", caption="straße") is True
