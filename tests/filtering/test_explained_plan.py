"""What is said of plans, word by word. ``golden_file`` says how to renew it."""

from pathlib import Path
from typing import Any

import pytest

from tests.filtering.drawn_predicates import SCORES
from tests.golden_file import check_text
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.decider import Decider
from wdsflow.filtering.explained_plan import explain, pilot_of, sql_of
from wdsflow.filtering.ledger.sample_table import Row, SampleTable
from wdsflow.filtering.predicates.catalog import parse

GOLDEN = Path(__file__).parent / "explained_plans.txt"
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


@pytest.mark.parametrize("number", range(len(PREDICATES)))
def test_a_plan_is_explained_so(number):
    expression = parse(PREDICATES[number], SCORES)
    samples = SampleTable(Row(at, str(at), 0, 512) for at in range(40))
    for call in expression.scores:
        samples.columns[call] = {at: value_of(call, at) for at in range(40)}
    pilot = pilot_of(
        expression, samples, {call: 0.3 ** (at + 1) for at, call in enumerate(expression.scores)}
    )
    query = sql_of(expression, "kept/.wdsflow/ledger/*.parquet", unknown_keeps=number % 2 == 1)
    check_text(
        GOLDEN,
        f"plan {number}",
        "\n".join([str(expression), explain(Decider(expression), pilot), query]),
    )


def value_of(call: ScoreCall, at: int) -> Any:
    kind = {"language": "text", "key": "text", "caption": "text"}.get(call.name) or getattr(
        SCORES.get(call.name), "kind", "boolean"
    )
    if at % 7 == 6:
        return None
    return {"number": at / 2, "boolean": at % 3 == 0, "text": "en" if at % 2 else "a"}[kind]
