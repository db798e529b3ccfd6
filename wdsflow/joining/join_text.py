"""Values of samples and rows as they are compared: as text, in Python and in DuckDB alike."""

import math

from wdsflow.text.utf8 import in_utf8

from .join_on import HASHES

# DuckDB's types of integers in Parquet files.
INTEGERS = frozenset("TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT".split())


def join_text(value: object, kind: str) -> str | None:
    r"""Return a value as text for the comparison of rows and samples; None if it cannot be joined.

    A float with a whole value equals its digits: tables often turn integers with gaps into floats.

    >>> join_text(12.0, "json"), join_text("A0F", "sha256"), join_text(b"\xa0", "sha256"), join_text("", "key")
    ('12', 'a0f', 'a0', None)
    """
    if isinstance(value, bytes):
        value = value.hex() if kind in HASHES else value.decode("utf-8", "backslashreplace")
    elif isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, float):
        value = _number_text(value)
    elif isinstance(value, int):
        value = f"{value & (1 << 64) - 1:016x}" if kind == "xxh3" else str(value)
    if not isinstance(value, str) or not value:
        return None
    text = in_utf8(value)
    return text.lower() if kind in HASHES else text


def join_query(cell: str, cell_type: str, kind: str) -> str:
    """Return the SQL that computes ``join_text`` for a DuckDB column type.

    "" if the type is neither text nor an integer.
    """
    if cell_type == "VARCHAR":
        text = f"lower({cell})" if kind in HASHES else cell
        return f"nullif({text}, '')"
    if cell_type not in INTEGERS:
        return ""
    if kind != "xxh3":
        return f"{cell}::VARCHAR"
    # A hash is unsigned, whatever the type of the column.
    number = cell if cell_type.startswith("U") else f"{cell}::BIGINT"
    return f"lpad(lower(to_hex({number})), 16, '0')"


def _number_text(value: float) -> str | None:
    if value.is_integer():
        return str(int(value))
    return None if math.isnan(value) else repr(value)
