"""A database of DuckDB for each process, in memory, for statements that keep nothing."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Result = TypeVar("Result")

# Seconds until a statement that is to end is asked again.
_WAIT = 0.05
Settings = tuple[tuple[str, str], ...]
_COMMON: Settings = (
    ("threads", "1"),
    # New in DuckDB 2.0, and 8 by default. A forked process inherits the database without its
    # threads: it would wait for them, or crash, when it forgets the database or ends.
    ("async_threads", "0"),
    ("temp_directory", "''"),
    ("autoinstall_known_extensions", "false"),
    ("autoload_known_extensions", "false"),
    # Otherwise the name of a table could be that of a variable of Python.
    ("python_enable_replacements", "false"),
)


def text_literal(text: str) -> str:
    """Return a text in SQL.

    >>> print(text_literal("it's"))
    'it''s'
    """
    quoted = text.replace("'", "''")
    return f"'{quoted}'"


def connection(settings: Settings) -> "DuckDBPyConnection":
    """Return a new connection to the database of this process that has these settings.

    The connection has its own tables and variables.

    ``settings``: names and values in SQL, made in this order after the common ones; those that this
    DuckDB does not know are left out.
    """
    # A forked process has one of its own: what it inherits is shared with nobody, but may be in the
    # middle of a query.
    return _database(os.getpid(), settings).cursor()


@lru_cache(maxsize=4)
def _database(_process: int, settings: Settings) -> "DuckDBPyConnection":
    import duckdb

    database = duckdb.connect(":memory:")
    scopes = dict(database.execute("SELECT name, scope FROM duckdb_settings()").fetchall())
    for setting, value in (*_COMMON, *settings):
        if setting in scopes:
            # Other connections to the database have only what is set for all of them.
            scope = "GLOBAL" if scopes[setting] == "GLOBAL" else "SESSION"
            database.execute(f"SET {scope} {setting} = {value}")
    return database


def call(connection: "DuckDBPyConnection", do: Callable[..., Result], *given: object) -> Result:
    """Call a method of a connection so that signals interrupt it.

    Signals raise their exceptions as usual and end the call within a moment.

    DuckDB looks at signals too rarely, and hides their exceptions: in the main thread, which gets
    them, the call is made in a thread of its own.
    """
    if threading.current_thread() is not threading.main_thread():
        return do(*given)
    result: Future[Result] = Future()

    def run() -> None:
        try:
            result.set_result(do(*given))
        except BaseException as error:  # noqa: BLE001 - raised by result()
            result.set_exception(error)

    threading.Thread(target=run, name="wdsflow-duckdb", daemon=True).start()
    return result_of(result, connection)


def result_of(future: "Future[Result]", connection: "DuckDBPyConnection") -> Result:
    """Wait for the result of a statement.

    An exception of this thread, such as that of a signal, interrupts the statement.
    """
    try:
        return future.result()
    except BaseException:
        # Raised by the statement itself, or by a signal while it runs.
        while not future.done():
            connection.interrupt()
            with suppress(BaseException):
                future.exception(_WAIT)
        raise
