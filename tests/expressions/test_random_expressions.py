"""Random expressions give the same result as plain Python.

This holds whatever is computed first.
"""

import ast
from contextlib import suppress
from random import Random

import duckdb
import numpy as np
import pytest

from tests.expressions import drawing
from tests.expressions.catalog import CATALOG
from tests.expressions.reference import Sample, meaning, plain
from tests.expressions.tables import CALLS, lists_of, table_of
from wdsflow.expressions.errors import ExpressionError
from wdsflow.expressions.evaluator import Decisions, Evaluator
from wdsflow.expressions.expression import Expression
from wdsflow.expressions.parsing import parse
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.expressions.sql import printed_sql, sql
from wdsflow.expressions.steps import steps_of

COLUMNS = list(drawing.COLUMNS)
NAMES = {call: name for name, call in CALLS.items()}
QUICK, ALL = 60, 300
CASES = [*range(QUICK), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(QUICK, ALL))]


def drawn(seed: int) -> tuple[str, Expression, list[Sample]]:
    """Return an expression and samples; a constant part that is refused is drawn again."""
    random = Random(seed)
    text = ""
    expression: Expression | None = None
    while expression is None or len(text) > 1500:
        text = drawing.expression(random)
        # Constants alone may be a division by zero.
        with suppress(ExpressionError):
            expression = parse(text, CATALOG)
    samples: list[Sample] = [drawing.sample(random, several=seed % 2 == 1) for _ in range(60)]
    return text, expression, samples


def expected_of(expression: Expression, samples: list[Sample]) -> list[list[bool | None]]:
    """Return what each term says of each sample."""
    sources = [ast.unparse(ast.parse(str(term), mode="eval")) for term in expression.terms]
    return [[meaning(source, sample) for source in sources] for sample in samples]


def check(decisions: Decisions, terms: list[list[bool | None]], order: list[int]) -> None:
    for row, values in enumerate(terms):
        result = False if False in values else None if None in values else True
        said = (bool(decisions.keep[row]), bool(decisions.drop[row]), bool(decisions.unknown[row]))
        assert said == (result is True, result is False, result is None), row
        decisive = [
            number
            for number, index in enumerate(order)
            if result is not True and values[index] is result
        ]
        assert decisions.term[row] == (decisive[0] if decisive else -1)


@pytest.mark.sample(12)
@pytest.mark.parametrize("seed", CASES)
def test_the_evaluator_says_what_plain_python_says(seed: int) -> None:
    text, expression, samples = drawn(seed)
    assert parse(str(expression), CATALOG) == expression
    lists = lists_of(samples)
    evaluator = Evaluator(expression)
    order = [expression.terms.index(term) for term in evaluator.terms]
    table = table_of(samples, {NAMES[call] for call in expression.scores} or {"key"}, lists)
    decisions = evaluator.evaluate(
        table, lists=[CALLS[name] for name in lists], missing=expression.scores
    )
    terms = expected_of(expression, samples)
    # The text as it was drawn means the same as its canonical form.
    whole = [meaning(text, sample) for sample in samples] if lists == [] else None
    assert whole in (
        None,
        [False if False in row else None if None in row else True for row in terms],
    )
    check(decisions, terms, order)


@pytest.mark.sample(12)
@pytest.mark.parametrize("seed", CASES)
def test_a_result_stays_when_more_scores_are_known_and_only_needed_ones_are_computed(
    seed: int,
) -> None:
    _, expression, samples = drawn(seed)
    lists = lists_of(samples)
    list_calls = [CALLS[name] for name in lists]
    evaluator = Evaluator(expression)
    known = [{name: [None] for name in sample} for sample in samples]
    decided = [None] * len(samples)
    computed: list[ScoreCall] = []
    steps = [step.scores for step in steps_of(expression)]
    Random(seed).shuffle(steps)
    for step in [(), *steps]:
        if step:
            decisions = evaluator.evaluate(
                table_of(known, COLUMNS, lists), computed, list_calls, step
            )
            for call in step:
                for row in np.flatnonzero(decisions.missing[call]):
                    known[row][NAMES[call]] = samples[row][NAMES[call]]
            computed += step
        decisions = evaluator.evaluate(table_of(known, COLUMNS, lists), computed, list_calls)
        for row, before in enumerate(decided):
            now = True if decisions.keep[row] else False if decisions.drop[row] else None
            assert before in (None, now)
            decided[row] = now
    terms = expected_of(expression, samples)
    assert decided == [False if False in row else None if None in row else True for row in terms]
    final = evaluator.evaluate(
        table_of(known, COLUMNS, lists), lists=list_calls, missing=expression.scores
    )
    for call, rows in final.missing.items():
        for row in np.flatnonzero(rows):
            assert None in [plain(item) for item in samples[row][NAMES[call]]]


@pytest.mark.sample(12)
@pytest.mark.parametrize("seed", CASES)
def test_the_printed_sql_runs_in_any_duckdb_and_keeps_the_same(seed: int) -> None:
    _, expression, samples = drawn(seed)
    lists = lists_of(samples)
    list_calls = [CALLS[name] for name in lists]
    # DuckDB does not distinguish these two columns of a file.
    names = [name for name in COLUMNS if name != "json_number(path='A.B')"]
    if CALLS["json_number(path='A.B')"] in expression.scores:
        return
    table = table_of(samples, names, lists, clean=True)
    expected = [not {False, None} & {*row} for row in expected_of(expression, samples)]
    with duckdb.connect() as database:
        database.register("ledger", table.data)
        condition = printed_sql(expression, list_calls)
        rows = database.execute(f"SELECT coalesce({condition}, false) FROM ledger").fetchall()
        assert [row for (row,) in rows] == expected
        condition, parameters = sql(expression, list_calls)
        rows = database.execute(
            f"SELECT coalesce({condition}, false) FROM ledger", parameters
        ).fetchall()
        assert [row for (row,) in rows] == expected
