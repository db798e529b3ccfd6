"""Regular expressions: those of RE2, which needs time linear in the text for any pattern."""

from functools import lru_cache

from .database import error_of


@lru_cache(maxsize=256)
def check_pattern(pattern: str) -> str:
    """Return what is wrong with a regular expression; "" if RE2 accepts it.

    RE2 is in DuckDB.
    """
    return error_of("SELECT regexp_matches('', $1)", pattern)
