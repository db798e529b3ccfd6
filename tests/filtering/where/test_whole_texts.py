"""What is said of plans and values, word by word. ``golden_file`` says how to renew it."""

import math
from pathlib import Path
from typing import Any

import pytest

from tests.filtering.where.predicates import SCORES
from tests.golden_file import check_text
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.predicates.catalog import parse
from wdsflow.filtering.predicates.values import Unknown
from wdsflow.filtering.where.predicate_planner import explain, pilot_of, plan

GOLDEN = Path(__file__).parent / "golden.txt"
PREDICATES = [
    "width >= 200 and similarity > 0.3 and blur > 10 and not duplicate",
    "similarity > 0.3 or width > 10",
    "blur > 1 and blur < 9 and words_in_caption > 2 and language == 'en'",
    "True",
    "False and width > 1",
    "contains(caption, 'a word that makes this condition longer than sixty characters') and width > 1",
    "(similarity > 0.1 and blur > 1) or (height > 2 and width > 2)",
    "near_duplicate(distance=3) or has('json') and key != 'a'",
]
VALUES: list[dict[str, Any]] = [
    {"width": 3, "height": 2.0, "blur": 0.0, "caption": "A cat", "duplicate": False},
    {"width": [1, 4], "height": [2, 3], "blur": [1.0, None], "caption": ["a", "B cat"], "duplicate": [True, False]},
    {"width": [1, 2, 3], "height": [2, 3], "blur": [], "caption": [], "duplicate": None},
    {"width": math.nan, "height": math.inf, "blur": Unknown("truncated", "here"), "caption": "", "duplicate": "yes"},
    {"width": 0, "height": -1, "blur": 1e308},
]
CONDITIONS = [
    "width > 2", "width >= height", "2 < width <= 3", "width == 3.0", "width != 3", "width + height > 4", "width - height >= 1",
    "width * height == 6", "width / height > 1", "width // height == 1", "width % height == 1", "-width < -2", "abs(-width) == 3",
    "blur * 10 > 1", "mean(width) > 2", "min(width) > 1", "max(width) > 3", "any(width > 3)", "all(width > 0)", "any(blur > 0)",
    "mean(blur) > 0", "width in (1, 3)", "width not in (1, 3)", "1 <= width <= 4", "width is None", "any(blur is None)",
    "blur is not None", "duplicate", "not duplicate", "any(duplicate)", "duplicate == True", "duplicate != True",
    "caption == 'a'", "caption < 'a'", "lower(caption) == 'a cat'", "upper(caption) == 'A CAT'", "strip(caption) == caption",
    "contains(caption, 'cat')", "startswith(caption, 'A')", "endswith(caption, 'cat')", "length(caption) > 1", "words(caption) == 2",
    "matches(caption, '^.\\s')", "caption in ('a', '')", "width > 2 or blur > 0", "width > 2 and blur > 0",
    "not (width > 2 and blur > 0)", "any(width > 1 and height > 2)", "width > 2 or height > 2 or duplicate",
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(PREDICATES)))
def test_a_plan_is_explained_so(number):
    where = parse(PREDICATES[number], SCORES)
    rows = [{call: value_of(call, at) for call in where.calls} for at in range(40)]
    pilot = pilot_of(where, rows, {call: 0.3 ** (at + 1) for at, call in enumerate(where.calls)})
    texts = [explain(plan(where), pilot), explain(plan(where, last=where.calls[:1]), pilot)]
    check_text(GOLDEN, f"plan {number}", "\n".join([str(where), *texts]))


def value_of(call: ScoreCall, at: int) -> Any:
    kind = {"language": "text", "key": "text", "caption": "text"}.get(call.name) or getattr(
        SCORES.get(call.name), "kind", "boolean"
    )
    if at % 7 == 6:
        return None
    return {"number": at / 2, "boolean": at % 3 == 0, "text": "en" if at % 2 else "a"}[kind]


def test_conditions_have_these_results():
    lines = []
    for text in CONDITIONS:
        where = parse(text, SCORES)
        found = [where.judge({ScoreCall(name): value for name, value in values.items()}) for values in VALUES]
        shown = [f"{each.keep}{f' ({each.unknown.slug})' if each.unknown else ''}" for each in found]
        needed = [
            plan(where).next_needed({ScoreCall(name): value for name, value in values.items()}) for values in VALUES
        ]
        lines.append(f"{text}: {', '.join(shown)}; {needed[-1]}, {plan(where).next_needed({})}")
    check_text(GOLDEN, "results", "\n".join(lines))
