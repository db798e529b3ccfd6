"""What is said of plans, word by word. ``golden_file`` says how to renew it."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.filtering.drawn_predicates import SCORES
from tests.golden_file import check_text
from tests.shards.archives import write_tar
from wdsflow import Recipe, RunOptions, filter_shards
from wdsflow.expressions.ledger_sql import ledger_query
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.expressions.steps import steps_of
from wdsflow.filtering.deciding.decider import Decider
from wdsflow.filtering.explained_plan import explain
from wdsflow.filtering.ledger.column_names import score_columns
from wdsflow.filtering.ledger.sample_table import LedgerRow, SampleTable
from wdsflow.filtering.pilot import pilot_of
from wdsflow.filtering.pilot_run import explain_plan
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
    samples = SampleTable(LedgerRow(at, str(at), 0, 512) for at in range(40))
    for call in expression.scores:
        samples.columns[call] = {at: value_of(call, at) for at in range(40)}
    pilot = pilot_of(
        expression, samples, {call: 0.3 ** (at + 1) for at, call in enumerate(expression.scores)}
    )
    query = ledger_query(
        expression,
        "kept/.wdsflow/ledger/*.parquet",
        score_columns(expression.scores, []),
        unknown_keeps=number % 2 == 1,
    )
    check_text(
        GOLDEN,
        f"plan {number}",
        "\n".join(
            [str(expression), explain(Decider(expression, steps_of(expression)), pilot), query]
        ),
    )


def test_a_single_sample_is_a_pilot_too():
    expression = parse("width > 3 and height > 30", SCORES)
    samples = SampleTable([LedgerRow(0, "0", 0, 512)])
    for call in expression.scores:
        samples.columns[call] = {0: 20}
    pilot = pilot_of(expression, samples, {})
    assert [pilot.share_reaching([term]) for term in expression.terms] == [1, 0]


def test_the_query_tells_scores_apart_that_differ_in_case_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trees = [b'{"n": 1, "N": 9}', b'{"n": 9, "N": 1}', b'{"n": 9, "N": 9}']
    write_tar(Path("0.tar"), [(f"{at}.json", tree) for at, tree in enumerate(trees)])
    recipe = Recipe(where="json_number('N') > 5 and json_number('n') < 5")
    filter_shards("0.tar", "kept[1]", recipe, RunOptions(jobs=0))
    query = explain_plan("0.tar", recipe, out="kept[1]").splitlines()[-1]
    assert duckdb.sql(query).fetchall() == [("0",)]


def value_of(call: ScoreCall, at: int) -> Any:
    kind = {"language": "text", "key": "text", "caption": "text"}.get(call.name) or getattr(
        SCORES.get(call.name), "kind", "boolean"
    )
    if at % 7 == 6:
        return None
    return {"number": at / 2, "boolean": at % 3 == 0, "text": "en" if at % 2 else "a"}[kind]
