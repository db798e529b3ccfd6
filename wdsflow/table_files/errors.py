"""Tables that cannot be read, or that lack a column."""

import difflib
from collections.abc import Iterable

from wdsflow.text.shell import escape, quote_path

# That are shown.
_COLUMNS = 50
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}


class TableError(ValueError):
    """A table that cannot be read. ``advice``: fixes, one line each."""

    def __init__(self, text: str, *advice: str) -> None:
        super().__init__(text)
        self.advice = list(advice)


class NoTable(TableError):
    """No file of that name. ``named``: as it was given; ``near``: an existing table with a similar name, or ""."""

    def __init__(self, text: str, tables: Iterable[str]) -> None:
        super().__init__(f"there is no table {text}")
        self.named = text
        self.near = next(iter(difflib.get_close_matches(text, list(tables), 1)), "")


class NoColumn(TableError):
    """A table lacks a column, or has several of that name.

    Args:
        named: the table.
        column: its name.
        names: the existing columns.
        text: the file, if it is a text file with names in its first line, otherwise "".
    """

    def __init__(self, named: str, column: str, names: Iterable[str], text: str = "") -> None:
        self.column, self.names = column, [name for name in names if name.strip()]
        self.is_parted_otherwise = bool(text) and any(
            each in name for name in self.names for each in _SEPARATORS
        )
        if times := self.names.count(column):
            place = " in its first line" if text else ""
            super().__init__(
                f"{named} has {times} columns {column!r}: give each a name of its own{place}"
            )
        elif not self.names and text:
            super().__init__(
                f"{text} is empty, or has no names in its first line, which must name the columns"
            )
        else:
            super().__init__(f"{named} has no column {column!r}", *self._advice(text))

    def near(self, column: str) -> str:
        """Return the existing name nearest to the column's, "" if none is similar."""
        plain = {
            name.strip().casefold(): name for name in reversed(self.names) if name.isprintable()
        }
        wanted = column.strip().casefold()
        near = [wanted] if wanted in plain else difflib.get_close_matches(wanted, plain, 1)
        return plain[near[0]] if near else ""

    def _advice(self, text: str) -> Iterable[str]:
        if text and self.names[0].startswith(("\udcff\udcfe", "\udcfe\udcff")):
            yield f"it is UTF-16, not UTF-8; to convert it: iconv -f UTF-16 -t UTF-8 {quote_path(text)} > utf8.csv"
            return
        more = len(self.names) - _COLUMNS
        shown = ", ".join(escape(each, 60) for each in self.names[:_COLUMNS])
        yield (
            f"it has {shown}{f' and {more:,} more' if more > 0 else ''}"
            if shown
            else "it has no columns"
        )
        if text and len(self.names) == 1:
            apart = [what for separator, what in _SEPARATORS.items() if separator in self.names[0]]
            usual = "tabs" if ".tsv" in text else "commas"
            ending = {"tabs": ".tsv", "commas": ".csv"}.get(apart[0]) if apart else None
            ends = f"give it a name that ends in {ending}" if ending else f"save it with {usual}"
            yield from (
                f"its columns are separated by {what}, not by {usual}: {ends}" for what in apart[:1]
            )
        elif text and not self.near(self.column):
            yield "its first line is taken for the names of the columns"
