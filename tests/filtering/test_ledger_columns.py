"""Columns of ledgers whose scores have the names of other columns.

Names may also differ from each other in case only.
"""

import duckdb
import pytest

from wdsflow.expressions.ledger_sql import NUMBER, with_number
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.expressions.shares import ranked_number
from wdsflow.filtering.ledger.column_names import column_of, names_in_file
from wdsflow.filtering.ledger.read_ledger import read_ledger
from wdsflow.filtering.ledger.sample_table import LedgerRow, SampleTable
from wdsflow.filtering.ledger.write_ledger import write_ledger

ABOUT = {
    "recipe": {"resize": ""},
    "input": {},
    "members": 0,
    "left_out": {},
    "damage": [],
    "headers": [],
}


class Number:
    """A score of the catalog."""

    tier = "header"
    kind = "number"

    def __init__(self, name: str) -> None:
        self.name = name


def written(path, values: dict[str, float]) -> SampleTable:
    """Write a ledger of one sample with these scores; return its table."""
    samples = SampleTable([LedgerRow(0, "k", 0, 512)])
    calls = [ScoreCall(name, ()) for name in values]
    for call in calls:
        samples.columns[call][0] = values[call.name]
    write_ledger(path, samples, dict.fromkeys(calls, "number"), [], ABOUT)
    return samples


@pytest.mark.parametrize(
    "names",
    [
        ["Key", "key", "KEY"],
        ["Failed", "several", "Several"],
        ["n", "N", "n_1", "N_1"],
        ["key", "Sample", "OUTCOME"],
    ],
    ids=str,
)
def test_scores_are_read_as_they_were_written_whatever_they_are_called(tmp_path, names):
    samples = written(
        tmp_path / "ledger.parquet", {name: float(number) for number, name in enumerate(names, 1)}
    )
    again, _ = read_ledger(tmp_path / "ledger.parquet")
    assert again.columns == samples.columns


def test_samples_are_ranked_by_the_expression_where_a_score_is_called_number(tmp_path):
    written(tmp_path / "ledger.parquet", {"number": 2.0, "Number": 3.0})
    ranked = ranked_number(
        "number * 100 + Number", {name: Number(name) for name in ("number", "Number")}
    )
    names = names_in_file(ranked.scores, [])
    columns = {call: names[column_of(str(call))] for call in ranked.scores}
    query = with_number(ranked, f"'{tmp_path}/ledger.parquet'", columns)
    assert duckdb.sql(f"SELECT {NUMBER} FROM ({query})").fetchall() == [(203,)]
