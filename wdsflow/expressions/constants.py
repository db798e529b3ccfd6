"""How constants are written in a statement: spelled out, or as parameters.

People read those that are spelled out. With parameters, a statement contains no text of a user.
"""

from collections.abc import Sequence
from typing import Protocol

from wdsflow.process_database import text_literal

from .score_call import Constant

# Digits of a decimal number that DuckDB converts to the nearest float.
_EXACT_DIGITS = 15
# Integers up to this one are floats, too.
_LARGEST_INTEGER = 1 << 53


class Constants(Protocol):
    """Returns the SQL of constants."""

    def constant_sql(self, value: Constant) -> str:
        """Return the SQL of a constant."""

    def membership_sql(self, options: Sequence[Constant], item: str) -> str:
        """Return the SQL for whether ``item`` is one of several constants of one type.

        ``item`` is SQL. The result is NULL if it is NULL.
        """


class Literals:
    """Spells constants out."""

    def constant_sql(self, value: Constant) -> str:
        """Return the constant in SQL."""
        return literal(value)

    def membership_sql(self, options: Sequence[Constant], item: str) -> str:
        """Return an IN list."""
        return f"{item} IN ({', '.join(map(literal, options))})"


class Parameters:
    """Collects constants in ``values``, and writes ``$1`` for the first."""

    def __init__(self) -> None:
        self.values: list[Constant] = []

    def constant_sql(self, value: Constant) -> str:
        """Return the next parameter."""
        self.values.append(as_stored(value))
        return f"${len(self.values)}"

    def membership_sql(self, options: Sequence[Constant], item: str) -> str:
        """Return an IN list of parameters."""
        return f"{item} IN ({', '.join(map(self.constant_sql, options))})"


def as_stored(value: Constant) -> bool | float | str:
    """Return a constant as scores have it: all numbers are floats."""
    return value if isinstance(value, (bool, str)) else float(value)


def literal(value: Constant) -> str:
    """Return a constant in SQL. Numbers become the same floats as in Python.

    >>> print(literal("it's"), literal(True), literal(0.28), literal(1 / 3), literal(10**20))
    'it''s' true 0.28 0.3333333333333333e0 1e+20
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return text_literal(value)
    if isinstance(value, int) and abs(value) <= _LARGEST_INTEGER:
        return str(value)
    text = repr(float(value))
    # Without an exponent it is a DECIMAL, which is exact only up to some length.
    if "e" not in text and sum(map(str.isdigit, text)) > _EXACT_DIGITS:
        text += "e0"
    return text
