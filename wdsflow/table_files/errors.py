"""Tables that cannot be read, or that lack a column."""

import difflib
from collections.abc import Iterable

from wdsflow.text.shell import escape, quote_path

# That are shown.
_COLUMNS = 50
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
# Of text files that are read with these separators.
_ENDINGS = {"tabs": ".tsv", "commas": ".csv"}


class TableError(ValueError):
    """A table that cannot be read. ``advice``: fixes, one line each."""

    def __init__(self, text: str, *advice: str) -> None:
        super().__init__(text)
        self.advice = list(advice)


class NoTable(TableError):
    """No table with this name exists.

    ``requested``: the name as given. ``nearest_table``: an existing one with a similar name, or "".
    """

    def __init__(self, text: str, tables: Iterable[str]) -> None:
        super().__init__(f"there is no table {text}")
        self.requested = text
        self.nearest_table = next(iter(difflib.get_close_matches(text, list(tables), 1)), "")


class NoColumn(TableError):
    """A table lacks a column, or has several of that name.

    Args:
        table: its name, for messages.
        column: the requested name.
        names: the existing columns.
        text: the file, if it is a text file with names in its first line, otherwise "".
    """

    def __init__(self, table: str, column: str, names: Iterable[str], text: str = "") -> None:
        self.column = column
        self.names = [name for name in names if name.strip()]
        self.has_other_separator = bool(text) and any(map(_has_separator, self.names))
        count = self.names.count(column)
        if count:
            where = " in its first line" if text else ""
            super().__init__(
                f"{table} has {count} columns {column!r}: give each a name of its own{where}"
            )
        elif not self.names and text:
            super().__init__(
                f"{text} is empty, or has no names in its first line, which must name the columns"
            )
        else:
            super().__init__(f"{table} has no column {column!r}", *self._advice(text))

    def nearest_name(self, column: str) -> str:
        """Return the existing name nearest to the column's, "" if none is similar."""
        # Of equal names, the first one counts.
        by_folded = {}
        for name in reversed(self.names):
            if name.isprintable():
                by_folded[name.strip().casefold()] = name
        folded = column.strip().casefold()
        if folded in by_folded:
            return by_folded[folded]
        near = difflib.get_close_matches(folded, by_folded, 1)
        return by_folded[near[0]] if near else ""

    def _advice(self, text: str) -> Iterable[str]:
        if text and self.names[0].startswith(("\udcff\udcfe", "\udcfe\udcff")):
            yield f"it is UTF-16, not UTF-8; to convert it: iconv -f UTF-16 -t UTF-8 {quote_path(text)} > utf8.csv"
            return
        yield self._columns_text()
        if not text:
            return
        if len(self.names) == 1:
            yield from _separator_advice(self.names[0], text)
        elif not self.nearest_name(self.column):
            yield "its first line is taken for the names of the columns"

    def _columns_text(self) -> str:
        shown = ", ".join(escape(name, 60) for name in self.names[:_COLUMNS])
        if not shown:
            return "it has no columns"
        more = len(self.names) - _COLUMNS
        and_more = f" and {more:,} more" if more > 0 else ""
        return f"it has {shown}{and_more}"


def _has_separator(name: str) -> bool:
    return any(separator in name for separator in _SEPARATORS)


def _separator_advice(name: str, file: str) -> Iterable[str]:
    """Yield how to read a file whose only column may be several with another separator."""
    separators = [title for separator, title in _SEPARATORS.items() if separator in name]
    if not separators:
        return
    separator = separators[0]
    usual = "tabs" if ".tsv" in file else "commas"
    fix = f"save it with {usual}"
    if separator in _ENDINGS:
        fix = f"give it a name that ends in {_ENDINGS[separator]}"
    yield f"its columns are separated by {separator}, not by {usual}: {fix}"
