"""DuckDB for expressions: one database a process, which sees nothing but the tables it is given.

Statements over it are written by wdsflow; texts of users are constants in them. Nevertheless it is
sealed: it can open no file and no network connection, load no extension, see no variable of Python,
and change none of these settings.
"""

from typing import TYPE_CHECKING

from wdsflow import process_database

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Bytes for one window of samples and its results. It has no file to continue in.
_MEMORY = 256 << 20
_SEALED = (
    ("memory_limit", f"'{_MEMORY >> 10}KiB'"),
    # All values of an object array decide its type, not a sample of them.
    ("pandas_analyze_sample", "1000000000"),
    ("enable_external_access", "false"),
    ("lock_configuration", "true"),
)


def connection() -> "DuckDBPyConnection":
    """Return a new connection to the database of this process.

    Its tables and variables are its own.
    """
    return process_database.connection(_SEALED)


def error_of(statement: str, *values: object) -> str:
    """Return why DuckDB refuses a statement, on one line; empty if it does not."""
    import duckdb

    try:
        connection().execute(statement, values).fetchall()
    except duckdb.Error as error:
        return str(error).partition("\n")[0].partition("Error: ")[2]
    return ""
