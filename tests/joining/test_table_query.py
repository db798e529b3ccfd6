"""DuckDB reads the rows of a Parquet file itself only where that is safe and gives the same."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wdsflow.joining.join_on import JoinOn
from wdsflow.joining.table_files import TableFiles
from wdsflow.joining.table_query import table_query


def query(path: Path, columns: dict[str, list[object]], group: int = 1000) -> str:
    pq.write_table(pa.table(columns), path, row_group_size=group, compression="none")
    return table_query(TableFiles("parquet", [path]), path, JoinOn("key", "", "key"), ["v"], [])


@pytest.mark.parametrize(
    ("sizes", "is_read"),
    [([300] * 4, True), ([6000, 10, 10, 10], True), ([6000, 6000, 10, 10], False)],
)
def test_rows_are_read_by_duckdb_unless_those_of_a_group_are_wide(
    tmp_path: Path, sizes: list[int], *, is_read: bool
) -> None:
    texts: list[object] = [f"{number:04}" * (size // 4) for number, size in enumerate(sizes)]
    keys: list[object] = [str(number) for number in range(4)]
    assert bool(query(tmp_path / "t.parquet", {"key": keys, "v": texts})) is is_read
    # A group of its own for each row: the widest decides.
    grouped = query(tmp_path / "groups.parquet", {"key": keys, "v": texts}, group=1)
    assert bool(grouped) is (max(sizes) < 2000)
