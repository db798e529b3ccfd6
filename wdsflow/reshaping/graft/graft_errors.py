"""Grafts that are refused before anything is written: unreadable tables, and joins that do not match."""

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from wdsflow.text.shell import escape, quote_path
from wdsflow.text.words import how_many, listed

if TYPE_CHECKING:
    from .join_on import JoinOn
    from .join_samples import Contradiction, Matches, SampleJoin

_COLUMNS = 50  # that are shown
_SHOWN = 3  # values
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}


class TableError(ValueError):
    """A table that cannot be read. ``advice``: fixes, one line each."""

    def __init__(self, text: str, *advice: str) -> None:
        super().__init__(text)
        self.advice = list(advice)


class NoTable(TableError):
    """No file of that name. ``near``: an existing table with a similar name, or ""."""

    def __init__(self, text: str, tables: Iterable[str]) -> None:
        super().__init__(f"there is no table {text}")
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
        self.is_parted_otherwise = bool(text) and any(each in name for name in self.names for each in _SEPARATORS)
        if times := self.names.count(column):
            super().__init__(f"{named} has {times} columns {column!r}: give each a name of its own in its first line")
        elif not self.names and text:
            super().__init__(f"{text} is empty, or has no names in its first line, which must name the columns")
        else:
            super().__init__(f"{named} has no column {column!r}", *self._advice(text))

    def near(self, column: str) -> str:
        """Return the existing name nearest to the column's, "" if none is similar."""
        plain = {name.strip().casefold(): name for name in reversed(self.names) if name.isprintable()}
        wanted = column.strip().casefold()
        near = [wanted] if wanted in plain else difflib.get_close_matches(wanted, plain, 1)
        return plain[near[0]] if near else ""

    def _advice(self, text: str) -> Iterable[str]:
        if text and self.names[0].startswith(("\udcff\udcfe", "\udcfe\udcff")):
            yield f"it is UTF-16, not UTF-8; to convert it: iconv -f UTF-16 -t UTF-8 {quote_path(text)} > utf8.csv"
            return
        more = len(self.names) - _COLUMNS
        shown = ", ".join(escape(each, 60) for each in self.names[:_COLUMNS])
        yield f"it has {shown}{f' and {more:,} more' if more > 0 else ''}" if shown else "it has no columns"
        if text and len(self.names) == 1:
            apart = [what for separator, what in _SEPARATORS.items() if separator in self.names[0]]
            usual = "tabs" if ".tsv" in text else "commas"
            ending = {"tabs": ".tsv", "commas": ".csv"}.get(apart[0]) if apart else None
            ends = f"give it a name that ends in {ending}" if ending else f"save it with {usual}"
            yield from (f"its columns are separated by {what}, not by {usual}: {ends}" for what in apart[:1])
        elif text and not self.near(self.column):
            yield "its first line is taken for the names of the columns"


class AmbiguousJoin(ValueError):
    """Samples that have several rows, or share a row."""


def refuse_ambiguous(matches: "Matches", on: str) -> None:
    """Raise AmbiguousJoin if there are any such samples."""
    if matches.by_rows + matches.by_samples:
        parts = []
        if matches.by_rows:
            parts.append(f"{how_many(matches.by_rows, 'sample')} with several rows of the table each")
        if matches.by_samples:
            parts.append(f"{how_many(matches.by_samples, 'sample')} with the row of another sample")
        such = ", ".join(escape(each, 80) for each in matches.examples)
        raise AmbiguousJoin(f"{on} does not identify samples: {listed(parts)}, such as {such}")


class ContradictedJoin(ValueError):
    """Samples have the key of a row, but another url or sha256. ``column``: an alternative for the join."""

    def __init__(self, found: "Contradiction") -> None:
        super().__init__(
            f"the keys are not those of the table: {found.samples:,} of {found.compared:,} compared samples have another "
            f"{found.column}; img2dataset gives samples new numbers in each download"
        )
        self.column = found.column
        self.evidence = [
            f"{escape(key, 60)}: the table has {escape(there, 200)}, the shard {escape(here, 200)}"
            for key, there, here in found.evidence
        ]


class NoMatch(ValueError):
    """No sample has a row. ``advice``: lines with examples of both sides."""

    def __init__(self, text: str, *advice: str) -> None:
        super().__init__(text)
        self.advice = list(advice)


def no_match(samples: int, join: "SampleJoin", matches: "Matches", on: "JoinOn", named: str) -> NoMatch:
    """Return the error, with examples of both sides."""
    if not join.rows or not samples:
        return NoMatch(f"{named} has no rows" if not join.rows else "the shards have no samples")
    if matches.by_rows + matches.by_samples:
        return NoMatch("all samples that have a row are ambiguous")
    here, there = join.values_of_samples(_SHOWN), join.values_of_rows()[:_SHOWN]
    return NoMatch(
        f"none of {how_many(samples, 'sample')} has a row in {named}",
        f"the samples have {_such(here)}" if here else f"no sample has {on.kind} {on.name}".rstrip(),
        f"the table has {_such(there)} in column {on.column}" if there else f"column {on.column} has no values",
    )


def _such(values: Sequence[str]) -> str:
    return ", ".join(escape(each, 100) for each in values)
