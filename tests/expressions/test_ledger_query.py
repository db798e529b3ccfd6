"""The printed query over Parquet files, run in any DuckDB.

It keeps what the evaluator keeps.
"""

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.expressions.catalog import CATALOG
from tests.expressions.tables import window
from wdsflow.expressions.evaluator import Evaluator
from wdsflow.expressions.ledger_sql import ledger_query
from wdsflow.expressions.parsing import parse
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.ledger.ledger_metadata import distinct_names

WIDTH, HEIGHT = ScoreCall("width"), ScoreCall("height")
SAMPLES: dict[str, list[Any]] = {
    "key": ["it's", "b", "c", "d", "e"],
    "width": [[300.0], [100.0], [300.0, 100.0], [300.0, 400.0], [None]],
    "height": [[300.0], [300.0], [100.0, 300.0], [300.0], [100.0]],
    "caption": ["a cat", "it's", None, "A CAT", "cat"],
    'json_number(path="a")': [1.0, 2.0, 3.0, 4.0, 5.0],
    'json_number(path="A")': [5.0, 4.0, 3.0, 2.0, 1.0],
}


@pytest.mark.parametrize(
    "text",
    [
        "width >= 200",
        "width >= 200 and height >= 200",
        "any(width >= 200) or width / height > 2",
        "'cat' in lower(caption) and key != 'it\\'s'",
        "caption is None or caption in ('cat', 'it\\'s')",
        "json_number('a') >= json_number('A') and not width < 200",
        "mean(width) > 180 and max(height) < 400",
    ],
)
def test_it_keeps_what_the_evaluator_keeps(text: str, tmp_path: Path) -> None:
    expression = parse(text, CATALOG)
    names = dict(
        zip(
            expression.scores,
            distinct_names([str(call) for call in expression.scores]),
            strict=True,
        )
    )
    several = [call for call in (WIDTH, HEIGHT) if call in expression.scores]
    columns = {name: pa.array(values) for name, values in SAMPLES.items()}
    decisions = Evaluator(expression).evaluate(window(columns), lists=several)
    ledger = {"key": columns["key"], "trouble": pa.nulls(5, pa.string())}
    lists = {}
    for call in expression.scores:
        values = SAMPLES[str(call)]
        if call in several:
            lists[str(call)] = [value if len(value) > 1 else None for value in values]
            values = [value[0] if len(value) == 1 else None for value in values]
        ledger[names[call]] = pa.array(values)
    if lists:
        rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
        ledger["several"] = pa.array([json.dumps(row) for row in rows])
    folder = tmp_path / "it's"
    folder.mkdir()
    table = pa.table(ledger)
    for part, group in enumerate((table.slice(0, 3), table.slice(3))):
        pq.write_table(group, folder / f"{part}.parquet")
    query = ledger_query(expression, f"{folder}/*.parquet", names, several)
    kept = [key for key, keep in zip(SAMPLES["key"], decisions.keep, strict=True) if keep]
    assert [key for (key,) in duckdb.sql(query).fetchall()] == kept
    assert 0 < len(kept) < 5
