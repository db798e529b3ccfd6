"""A database connection with the constants and statements of an evaluator.

The database is that of this process.
"""

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wdsflow.process_database import call

from .constants import as_stored
from .database import connection
from .score_call import Constant

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The name of the table in statements.
TABLE = "samples"
# No text of an expression contains it.
_SEPARATOR = "\0"


class Session:
    """Runs statements over one table at a time, and writes constants into them: see ``Constants``.

    ``lock``: held by the thread that uses it. A process that is forked makes a session of its own.

    A constant is a variable of the connection: set once, while a parameter would be converted for
    each window, which takes longer than the query in DuckDB before 2.0.
    """

    def __init__(self) -> None:
        self.process = os.getpid()
        self.lock = threading.Lock()
        self.statements: dict[object, str] = {}
        self._connection = connection()
        self._variables: dict[object, str] = {}

    def constant_sql(self, value: Constant) -> str:
        """Return the variable of a constant."""
        stored = as_stored(value)
        return self._variable((type(stored), stored), "$1", [stored])

    def membership_sql(self, options: Sequence[Constant], item: str) -> str:
        """Return the test for a member of a list."""
        stored = [as_stored(option) for option in options]
        kind = {bool: "BOOLEAN", float: "DOUBLE", str: "VARCHAR"}[type(stored[0])]
        # As one text: DuckDB converts the items of a list of parameters one by one, and slowly.
        joined = _SEPARATOR.join(map(str, stored))
        variable = self._variable(
            (kind, joined), f"string_split($1, $2)::{kind}[]", [joined, _SEPARATOR]
        )
        return f"list_contains({variable}, {item})"

    def _variable(self, key: object, value: str, parameters: list[Any]) -> str:
        if key not in self._variables:
            name = f"constant{len(self._variables)}"
            self._connection.execute(f"SET VARIABLE {name} = {value}", parameters)
            self._variables[key] = f"getvariable('{name}')"
        return self._variables[key]

    def run(self, statement: str, table: object) -> "dict[str, NDArray[np.generic]]":
        """Return the columns of a result.

        ``table`` is read once: some streams cannot be read a second time.
        """
        self._connection.register(TABLE, table)
        try:
            return call(self._connection, self._columns, statement)
        finally:
            self._connection.unregister(TABLE)

    def _columns(self, statement: str) -> "dict[str, NDArray[np.generic]]":
        columns: dict[str, NDArray[np.generic]] = self._connection.execute(statement).fetchnumpy()
        return columns
