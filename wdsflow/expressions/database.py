"""DuckDB for expressions: one database a process, which sees nothing but the tables it is given.

Statements over it are written by wdsflow; texts of users are constants in them. Nevertheless it is sealed: it can open
no file and no network connection, load no extension, see no variable of Python, and change none of these settings.
"""

import os
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Bytes for one window of samples and its results. It has no file to continue in.
_MEMORY = 256 << 20
_SETTINGS = (
    # In notebooks and `python -c`, a bar would be shown.
    ("enable_progress_bar", "false"),
    ("threads", "1"),
    # New in DuckDB 2.0, and 8 by default. A forked process inherits the database without its threads: it would wait for
    # them, or crash, when it forgets the database or ends.
    ("async_threads", "0"),
    ("memory_limit", f"'{_MEMORY >> 10}KiB'"),
    ("temp_directory", "''"),
    ("autoinstall_known_extensions", "false"),
    ("autoload_known_extensions", "false"),
    # Otherwise the name of a table could be that of a variable of Python.
    ("python_enable_replacements", "false"),
    ("enable_external_access", "false"),
    ("lock_configuration", "true"),
)


def connection() -> "DuckDBPyConnection":
    """Return a new connection to the database of this process. Its tables and variables are its own."""
    # A forked process has one of its own: what it inherits is shared with nobody, but may be in the middle of a query.
    return _database(os.getpid()).cursor()


def error_of(statement: str, *values: object) -> str:
    """Return why DuckDB refuses a statement, on one line; empty if it does not."""
    import duckdb

    try:
        connection().execute(statement, values).fetchall()
    except duckdb.Error as error:
        return str(error).partition("\n")[0].partition("Error: ")[2]
    return ""


@lru_cache(maxsize=1)
def _database(_process: int) -> "DuckDBPyConnection":
    import duckdb

    database = duckdb.connect(":memory:")
    known = {name for (name,) in database.execute("SELECT name FROM duckdb_settings()").fetchall()}
    # In this order: some settings cannot be made once there is no access to files.
    for setting, value in _SETTINGS:
        if setting in known:
            database.execute(f"SET {setting} = {value}")
    return database
