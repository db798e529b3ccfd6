"""The names of the columns of a ledger."""

from collections.abc import Iterable

from wdsflow.expressions.score_call import ScoreCall

from .ledger_metadata import KEYS, distinct_names

# The columns that every ledger has.
_FIXED = (
    "sample",
    "key",
    "offset",
    "size",
    "image_xxh3",
    "outcome",
    "term",
    "error",
    "detail",
    "trouble",
    "fields",
)
RESIZED = "resized"
# Names that no column of a score has. The last is that by which DuckDB numbers the rows of a file.
RESERVED = frozenset((*_FIXED, "several", "failed", RESIZED, KEYS, "file_row_number"))
_GATHERED = " gathered"


def column_of(name: str) -> str:
    """Return the column of a score, even if it is called ``key``."""
    return f"score {name}" if name in RESERVED else name


def gathered_column(name: str) -> str:
    """Return the column with the data by which a score compares samples."""
    return f"{name}{_GATHERED}"


def names_in_file(calls: Iterable[ScoreCall], gathered: Iterable[str]) -> dict[str, str]:
    """Return the names that the columns of scores have in a ledger.

    The keys are names of ``column_of`` and ``gathered_column``, the values are those in the ledger.

    They differ where two names differ in case alone, which DuckDB and other programs do not
    distinguish.
    """
    names = [column_of(str(call)) for call in calls]
    names += [gathered_column(name) for name in gathered]
    return dict(zip(names, distinct_names(names, RESERVED), strict=True))


def score_columns(calls: Iterable[ScoreCall], gathered: Iterable[str]) -> dict[ScoreCall, str]:
    """Return the name of each score's column in a ledger: see ``names_in_file``."""
    calls = list(calls)
    names = names_in_file(calls, gathered)
    return {call: names[column_of(str(call))] for call in calls}
