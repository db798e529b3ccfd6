"""The query by which the docs say why a sample was dropped, in plain DuckDB."""

import re
from pathlib import Path

import duckdb
import pytest

from tests.filtering.shards import write_shards
from wdsflow import Recipe, RunOptions, filter_shards

PAGE = Path(__file__).resolve().parents[2] / "docs" / "runs.md"


def test_a_ledger_says_why_a_sample_was_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_shards(tmp_path / "in", shards=1, samples=4)
    recipe = Recipe(where="min_side > 100000 and caption_words >= 0")
    filter_shards(str(tmp_path / "in"), tmp_path / "kept", recipe, RunOptions(jobs=0))
    monkeypatch.chdir(tmp_path)
    keys = duckdb.sql("SELECT key FROM 'kept/.wdsflow/ledger/*.parquet'").fetchall()
    found = re.search(r"```sql\n(SELECT .*?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    query = found[1].replace("'000123'", "$1")
    assert query != found[1]
    rows = duckdb.execute(query, [keys[0][0]]).fetchall()
    assert rows == [("dropped", "min_side > 100000", None, None)]
