"""Terms that can never hold, or always do, by the ranges that scores declare."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.golden_file import check_text
from wdsflow.expressions.errors import ExpressionError
from wdsflow.expressions.parsing import parse
from wdsflow.expressions.ranges import check_ranges
from wdsflow.stages.scores import all_scores

GOLDEN = Path(__file__).parent / "messages.txt"
NEVER = {
    "language_score > 30": "language_score > 30 never holds: language_score is from 0 to 1",
    "min_side >= 200 and 50 <= brightness": "50 <= brightness never holds: brightness is from 0 to 1",
    "width < 1": "width < 1 never holds: width is at least 1",
    "not width >= 1": "width >= 1 always holds",
    "any(entropy > 8)": "entropy > 8 never holds: entropy is from 0 to 8",
    "9 <= entropy <= 10": "never holds: entropy is from 0 to 8",
    "entropy in (-1, 9)": "never holds",
    "mean(-brightness * 2 + 1) > 1": "never holds: brightness is from 0 to 1",
    "brightness / 2 > 0.5": "never holds",
    "contrast - brightness > 0.5": "never holds: contrast is from 0 to 0.5, brightness is from 0 to 1",
    "brightness == 2 or entropy > 9": "brightness == 2 never holds",
    "blur < 0 and width > 3": "blur is at least 0",
    "brightness == 2 or (entropy > 9 and width > 5)": "brightness == 2 never holds",
    "not (width >= 1 and entropy <= 8)": "width >= 1 always holds",
    "not (entropy > 8 or brightness <= 1)": "entropy > 8 never holds",
    "all(entropy > 9 or not brightness <= 1)": "entropy > 9 never holds",
    "(brightness if width > 3 else contrast) > 1": "never holds",
    "(brightness if language == 'en' else contrast) > 1": (
        "never holds: brightness is from 0 to 1, contrast is from 0 to 0.5\n"
    ),
    "(2 if language == 'en' else 3) > 4": '(2 if language == "en" else 3) > 4 never holds\n',
}
ALWAYS = ["width >= 1", "clip_similarity <= 1 or width > 5", "brightness != 2", "not entropy > 8"]
EITHER = [
    "(brightness > 1) is None",
    "width >= 2 and entropy <= 7.9 and brightness > 0.99",
    "language_score >= 1",
    "clip_similarity < -0.5",
    "width / height > 100",
    "1 / brightness < 0.5",
    "1 / (brightness - 0.5) > 9",
    "entropy in (8, 9)",
    "language == 'a' or words(language) < 0",
    "abs(brightness) > 2",
    "True",
    "width > 5 or (entropy > 7 and width > 2)",
    "not (width > 5 and entropy > 7)",
    "brightness % 2 >= 0",
    "brightness // 1 >= 0",
    "(brightness if width > 3 else width) > 1",
]


def told(text: str) -> list[str]:
    return check_ranges(parse(text, all_scores()))


@pytest.mark.parametrize("text", NEVER)
def test_a_term_that_no_value_satisfies_is_refused_with_the_range(text: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        told(text)
    assert NEVER[text] in str(refused.value)


@pytest.mark.parametrize("text", ALWAYS)
def test_a_term_that_every_value_satisfies_is_reported(text: str) -> None:
    (line,) = told(text)
    assert "always holds: " in line or "never holds: " in line


@pytest.mark.parametrize("text", EITHER)
def test_a_term_that_some_values_satisfy_says_nothing(text: str) -> None:
    assert told(text) == []


def test_a_score_may_have_only_a_largest_number() -> None:
    @dataclass(frozen=True)
    class Depth:
        kind = "number"
        tier = "header"
        high = 0.0

    with pytest.raises(ExpressionError) as refused:
        check_ranges(parse("depth > 1", {**all_scores(), "depth": Depth}))
    first = "where, column 1: depth > 1 never holds: depth is at most 0"
    assert str(refused.value).splitlines()[0] == first


def test_a_percentage_is_answered_with_the_share() -> None:
    with pytest.raises(ExpressionError) as refused:
        told("'x' in language and brightness > 30 and width > 1")
    assert str(refused.value).splitlines()[1:] == [
        "    'x' in language and brightness > 30 and width > 1",
        "                        ^^^^^^^^^^^^^^^",
        "  write brightness > 0.3",
    ]


def test_what_ranges_decide_is_this() -> None:
    lines = []
    for text in [*NEVER, *ALWAYS]:
        try:
            said = "\n".join(told(text))
        except ExpressionError as error:
            said = str(error)
        lines.append(f"{text}\n{said}")
    check_text(GOLDEN, "ranges", "\n".join(lines))
