"""Joins, sorts and groups of more rows than fit into memory, by DuckDB.

Some questions concern all samples of a set at once: which row of a table belongs to which sample,
which sample is the duplicate of an earlier one, which of two sets has a key, which 30 % have the
best score. The answers need a join, a sort or a group over hundreds of millions of rows, on
machines that have a few GiB to spare. This room asks DuckDB, and no other code of the project sorts
or joins on disk.

`Tables` is a database for the time of one run::

    with Tables(scratch) as tables:
        tables.run("CREATE TABLE samples (place UBIGINT, key VARCHAR)")
        tables.add("samples", place=places, key=keys)  # columns, some thousand rows at a time
        for place, number in tables.rows("SELECT place, row_number() OVER (ORDER BY key, place) FROM
        samples ORDER BY place"):
            ...

Rules for all users:

* **Memory.** Rows are kept in memory up to a limit, 512 MiB by default, and beyond it in files of
  the scratch folder. Results are read some thousand rows at a time. Joins, sorts, groups and
  windows continue on disk; aggregates that collect values (`list`, `string_agg`) do not: sort
  instead, and collect in Python. Keep rows that are sorted below 2 KiB, and split larger values
  into several rows. Sorts of rows of some hundred bytes and more need `SET threads = 1`: with
  several threads and little memory they end with ENOMEM.
* **Scratch.** The folder is given: next to the output, or a temporary folder. DuckDB's files in it
  are removed when the block ends. A killed run leaves them, so the folder has to be one that the
  next run empties (`scratch_folder`).
* **Order.** A result has the order of its ORDER BY and no other. Whatever is written or shown has
  one, down to the last column in which two rows differ; the same input gives the same bytes with
  any number of threads.
* **Values.** Text is Unicode without lone surrogates. Bytes are BLOB, which sort as unsigned bytes.
  NUL is a character like any other. `?` in a statement stands for a value; names of columns are put
  in by `name`.
* **Interruption.** Ctrl-C and other signals end a statement within a moment.
* **Errors.** `TablesError`, an OSError that names the scratch folder: the disk is full (ENOSPC),
  the limit of memory is too small for a statement (ENOMEM), or a file cannot be read or written
  (EIO).
* **Network.** DuckDB neither loads nor installs extensions.
"""

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psutil

from wdsflow.process_database import result_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

# Bytes.
MEMORY = 512 << 20
_THREADS = 2
# Bytes, with which DuckDB sorts rows of some hundred bytes on disk in one thread.
_LEAST = 64 << 20
# Bytes: with less, and several threads, large sorts end with "failed to pin block".
_PER_THREAD = 128 << 20
# Bytes that DuckDB and its threads reserve on top of its memory; without them the process dies.
_ADDRESSES = 1 << 30
# Rows of a result.
_AT_ONCE = 4096
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Result = TypeVar("Result")


class TablesError(OSError):
    """A statement that cannot be executed: ENOSPC, ENOMEM or EIO.

    The file name is the scratch folder.
    """


class Tables:
    """A database in memory, which spills to files of a scratch folder.

    Use it as a context manager, in one thread.

    Args:
        folder: exists; for data that does not fit into memory.
        memory: bytes that may be used before that; at least 64 MiB are used.
        threads: of a statement, at most; never more than there are cores, or than memory is for.

    Raises TablesError (ENOMEM) if a limit on the address space (``ulimit -v``) is too low.
    """

    def __init__(self, folder: Path, *, memory: int = MEMORY, threads: int = _THREADS) -> None:
        _need_addresses(max(memory, _LEAST) + _ADDRESSES, folder)
        import duckdb

        self._folder = folder
        settings: dict[str, str | int] = {
            "memory_limit": f"{max(memory, _LEAST) >> 10}KiB",
            "threads": max(1, min(threads, os.cpu_count() or 1, memory // _PER_THREAD)),
            "temp_directory": str(folder / "tables"),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        # Statements run in a thread of their own: DuckDB looks
        # at signals too rarely, and hides their exceptions.
        self._thread = ThreadPoolExecutor(1, "wdsflow-tables")
        self._connection = duckdb.connect(":memory:", config=settings)
        # In notebooks and `python -c` it is on.
        self._connection.execute("SET enable_progress_bar = false")
        # All values of an object array decide its type, not a sample of them.
        self._connection.execute("SET pandas_analyze_sample = 1000000000")

    def run(self, statement: str, *values: object) -> None:
        """Execute a statement.

        Raises TablesError, or duckdb.Error if the statement or its data are wrong.
        """
        self._do(self._connection, self._connection.execute, statement, values)

    def rows(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a result. Raises as ``run``."""
        return chain.from_iterable(self.batches(query, *values))

    def batches(self, query: str, *values: object) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a result, some thousand at a time.

        Other statements may run in between. Raises as ``run``.
        """
        with self._connection.cursor() as cursor:
            self._do(cursor, cursor.execute, query, values)
            while found := self._do(cursor, cursor.fetchmany, _AT_ONCE):
                yield found

    def one(self, query: str, *values: object) -> tuple[Any, ...]:
        """Return the only or the first row of a result.

        Raises as ``run``, and LookupError if there is no row.
        """
        for row in self.rows(query, *values):
            return row
        raise LookupError(query)

    def arrays(self, query: str, *values: object) -> "dict[str, NDArray[Any]]":
        """Return a small result as arrays, by column name.

        Columns of 128-bit numbers are not supported. Raises as ``run``.
        """
        with self._connection.cursor() as cursor:
            self._do(cursor, cursor.execute, query, values)
            found: dict[str, NDArray[Any]] = self._do(cursor, cursor.fetchnumpy)
        return found

    def add(self, table: str, **columns: "NDArray[Any] | Sequence[object]") -> None:
        """Append rows, given as columns of equal length.

        A column is an array of numbers, or a sequence of text, bytes and None.

        The columns are those of the table, in its order.
        """
        import numpy as np

        arrays: dict[str, NDArray[Any]] = {}
        for each, column in columns.items():
            arrays[each] = (
                column
                if isinstance(column, np.ndarray)
                else np.fromiter(column, object, len(column))
            )
        self.run_over(arrays, f"INSERT INTO {name(table)} SELECT * FROM added")

    def run_over(self, arrays: "Mapping[str, NDArray[Any]]", statement: str) -> None:
        """Execute a statement over a table ``added``, given as arrays of equal length.

        The keys of the arrays are the names of the columns.

        Raises as ``run``.
        """
        self._connection.register("added", arrays)
        try:
            self.run(statement)
        finally:
            self._connection.unregister("added")

    def _do(
        self, connection: "DuckDBPyConnection", do: Callable[..., Result], *given: object
    ) -> Result:
        import duckdb

        try:
            return result_of(self._thread.submit(do, *given), connection)
        except duckdb.Error as error:
            raise system_error(error, self._folder) from error

    def __enter__(self) -> "Tables":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._thread.shutdown()


def name(text: str) -> str:
    """Return a quoted name of a table or column.

    >>> name('my "own" key')
    '"my ""own"" key"'
    """
    return '"' + text.replace('"', '""') + '"'


def _need_addresses(size: int, folder: Path) -> None:
    """Raise TablesError if the process may not reserve so many more bytes of addresses."""
    try:
        import resource
    except ImportError:
        # Windows.
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit - psutil.Process().memory_info().vms < size:
        reason = f"the limit of {limit >> 20:,} MiB on the address space is too low for a join or sort; ulimit -v unlimited lifts it"
        raise TablesError(errno.ENOMEM, reason, str(folder))


def system_error(error: Exception, path: Path) -> Exception:
    """Return an error of DuckDB as one of the system that names ``path``, if it is one."""
    import duckdb

    text = str(error)
    if isinstance(error, duckdb.OutOfMemoryException):
        number = (
            errno.ENOSPC
            if "max_temp_directory_size" in text.partition("Possible solutions")[0]
            else errno.ENOMEM
        )
    elif isinstance(error, duckdb.IOException):
        number = next((each for each in _FULL if os.strerror(each) in text), errno.EIO)
    else:
        return error
    reason = os.strerror(number) if number != errno.EIO else text.partition("\n")[0]
    return TablesError(number, reason, str(path))
