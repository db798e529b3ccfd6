"""All that is said of predicates: errors, ranges, plans and values, word by word. ``golden_file`` says how to renew it."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.filtering.where.predicates import SCORES
from tests.filtering.where.test_errors import ERRORS
from tests.filtering.where.test_ranges import ALWAYS, EITHER, NEVER
from tests.golden_file import check_text
from wdsflow.filtering.where.predicate import check_ranges, parse
from wdsflow.filtering.where.predicate_planner import explain, pilot_of, plan
from wdsflow.filtering.where.tokens import WhereError
from wdsflow.filtering.where.values import Call, Unknown
from wdsflow.stages.scores.score_catalog import all_scores

GOLDEN = Path(__file__).parent / "golden.txt"
MORE_ERRORS = [
    "width > 3x",
    "width > 1.KB",
    "width > -",
    "'a' > 1",
    "caption == 5",
    "5 == caption",
    "lower(width) == 'a'",
    "lower() == 'a'",
    "startswith(caption) and true",
    "abs(caption) > 1",
    "mean(caption) > 1",
    "mean(duplicate) > 1",
    "-caption > 1",
    "caption + 1 > 2",
    "duplicate + 1 > 2",
    "duplicate == 1",
    "duplicate == caption",
    "not caption",
    "caption or duplicate",
    "any(duplicate) == any(has_url)",
    "width > 1 and",
    "width > 1 width > 2",
    "caption 'a' 'b'",
    "duplicate And has_url BETWEEN 1",
    "width % 0 > 1",
    "width // 0.0 > 1",
    "width > 1e4000",
    "width(3) > 1",
    "width(a=3) > 1",
    "near_duplicate(distance=true)",
    "near_duplicate(fields=(1,))",
    "near_duplicate(fields=width)",
    "near_duplicate(distance=)",
    "has('a', field='b')",
    "json_number(path='') > 1",
    "json_number > 1",
    "width in ('1', 2)",
    "caption in ('a', 1)",
    "1 < width is null",
    "width == none",
    "caption ilike 'a'",
    "\"unclosed",
    "width > 1\nand heigth > 2",
    f"width > 1 and {'height > 1 and ' * 12}heigth > 2 and {'blur > 1 and ' * 12}true",
    "word_in_caption > 1",
    "bytes < 3tb and bytes > 1 GiB",
]  # fmt: skip
PREDICATES = [
    "width >= 200 and similarity > 0.3 and blur > 10 and not duplicate",
    "similarity > 0.3 or width > 10",
    "blur > 1 and blur < 9 and words_in_caption > 2 and language == 'en'",
    "true",
    "false and width > 1",
    "contains(caption, 'a word that makes this condition longer than sixty characters') and width > 1",
    "(similarity > 0.1 and blur > 1) or (height > 2 and width > 2)",
    "near_duplicate(distance=3) or has('json') and key != 'a'",
]
RANGES = [
    "width * 2 >= 2", "2 * width < 2", "width / 2 >= 0.5", "1 - brightness >= 0", "-brightness <= 0", "brightness + contrast <= 1.5",
    "brightness - contrast >= -0.5", "brightness * -1 > 0", "brightness / -2 > 0", "brightness % 2 >= 0", "brightness // 1 >= 0",
    "brightness <= contrast", "brightness == 1", "brightness == 1.01", "brightness != -0.01", "0 <= brightness <= 1",
    "0 <= brightness < 1", "-1 < brightness < 2", "brightness in (0, 1)", "brightness not in (2, 3)", "min(brightness) >= 0",
    "brightness >= 0 and brightness <= 1", "brightness > 1 or contrast > 0.5", "not (brightness > 1 or contrast > 0.5)",
    "any(brightness >= 0)", "all(contrast <= 0.5)", "brightness is null", "width < 2", "width < 1.0", "1 > width", "1 >= width",
    "phash == 'a'", "language in ('en',)", "char_repetition > 1", "char_repetition >= 1", "1 / width <= 1", "width * brightness >= 0",
]  # fmt: skip
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
    "mean(blur) > 0", "width in (1, 3)", "width not in (1, 3)", "width between 1 and 4", "width is null", "any(blur is null)",
    "blur is not null", "duplicate", "not duplicate", "any(duplicate)", "duplicate == true", "duplicate != true",
    "caption == 'a'", "caption < 'a'", "lower(caption) == 'a cat'", "upper(caption) == 'A CAT'", "strip(caption) == caption",
    "contains(caption, 'cat')", "startswith(caption, 'A')", "endswith(caption, 'cat')", "length(caption) > 1", "words(caption) == 2",
    "matches(caption, '^.\\s')", "caption in ('a', '')", "width > 2 or blur > 0", "width > 2 and blur > 0",
    "not (width > 2 and blur > 0)", "any(width > 1 and height > 2)", "width > 2 or height > 2 or duplicate",
]  # fmt: skip


def said(what: Callable[[], object]) -> str:
    try:
        return str(what())
    except WhereError as error:
        return f"{error}\n    [{error.line}:{error.column} {error.start}-{error.end}]"


def test_errors_are_these():
    texts = [text for text, *_ in ERRORS if "matches" not in text] + MORE_ERRORS  # RE2's words are its own
    check_text(GOLDEN, "errors", "\n".join(f"{text!r}\n{said(partial(parse, text, SCORES))}" for text in texts))


def told(where: str) -> object:
    return check_ranges(parse(where, all_scores()), all_scores())


def test_what_ranges_decide_is_this():
    check_text(
        GOLDEN,
        "ranges",
        "\n".join(f"{text}\n    {said(partial(told, text))}" for text in [*NEVER, *ALWAYS, *EITHER, *RANGES]),
    )


@pytest.mark.parametrize("number", range(len(PREDICATES)))
def test_a_plan_is_explained_so(number):
    where = parse(PREDICATES[number], SCORES)
    rows = [{call: value_of(call, at) for call in where.calls} for at in range(40)]
    pilot = pilot_of(where, rows, {call: 0.3 ** (at + 1) for at, call in enumerate(where.calls)})
    texts = [explain(plan(where), pilot), explain(plan(where, last=where.calls[:1]), pilot)]
    check_text(GOLDEN, f"plan {number}", "\n".join([str(where), *texts]))


def value_of(call: Call, at: int) -> Any:
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
        found = [where.judge({Call(name): value for name, value in values.items()}) for values in VALUES]
        shown = [f"{each.keep}{f' ({each.unknown.slug})' if each.unknown else ''}" for each in found]
        needed = [plan(where).next_needed({Call(name): value for name, value in values.items()}) for values in VALUES]
        lines.append(f"{text}: {', '.join(shown)}; {needed[-1]}, {plan(where).next_needed({})}")
    check_text(GOLDEN, "results", "\n".join(lines))
