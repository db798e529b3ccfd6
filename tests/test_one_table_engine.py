"""Joins and sorts beyond memory have one place: ``wdsflow/tables.py``."""

import ast

import pytest

from tests.test_floors import MODULES, imports_of, room_of
from tests.trees import nodes

pytestmark = pytest.mark.xdist_group("syntax trees")

DATABASES = {"duckdb", "sqlite3", "dbm", "shelve", "lmdb", "polars"}
ALLOWED = {
    # A window of samples in memory, in a database that is
    # sealed; Parquet files. It joins and sorts nothing.
    ("wdsflow.process_database", "duckdb"),
    # Errors of its statements.
    ("wdsflow.expressions.database", "duckdb"),
    # Its errors say that a ledger cannot be read.
    (
        "wdsflow.filtering.deciding.compared_ledgers",
        "duckdb",
    ),
    ("wdsflow.table_files.parquet_file", "duckdb"),
    ("wdsflow.table_files.parquet_writer", "duckdb"),
    ("wdsflow.indexing.energon_database", "sqlite3"),  # writes the index file that Energon reads
    # Its errors say that a table has to be read in another way.
    (
        "wdsflow.joining.loaded_rows",
        "duckdb",
    ),
}


def test_only_the_tables_room_imports_a_database():
    found = {
        (module, database)
        for module, path in MODULES.items()
        if room_of(module) != "wdsflow.tables"
        for name, dots in imports_of(module, path)
        if not dots and (database := name.partition(".")[0]) in DATABASES
    }
    assert found == ALLOWED
    assert any(
        name == "duckdb" for name, _ in imports_of("wdsflow.tables", MODULES["wdsflow.tables"])
    )


def test_nothing_merges_sorted_runs():
    merging = [
        module
        for module, path in MODULES.items()
        if "heapq" in path.read_text()
        for node in nodes(path)
        if (
            isinstance(node, ast.Attribute)
            and node.attr == "merge"
            and ast.unparse(node.value) == "heapq"
        )
        or (
            isinstance(node, ast.ImportFrom)
            and node.module == "heapq"
            and "merge" in {each.name for each in node.names}
        )
    ]
    assert merging == []
