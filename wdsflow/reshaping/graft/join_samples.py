"""The join of all rows of the table with all samples."""

import errno
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from wdsflow.reshaping.options import Ambiguous
from wdsflow.tables import Tables, TablesError

from .join_on import JoinOn, join_text
from .join_values import JoinValues
from .table_rows import TableFiles
from .table_values import KINDS, stored_value
from .value_lines import LINES_AT_ONCE, Lines

# In place of a row: none has the value, no value to join on, a sample next to damage, see
# Ambiguous.
ABSENT, WITHOUT, DAMAGED, AMBIGUOUS = -1, -2, -3, -4
# Endings of the files of a shard: the row of each sample, 8 bytes each, and the values of those
# that have one, in Parquet.
ROWS, VALUES = ".rows", ".values"
_EXAMPLES = 3
# Characters of an example.
_SHOWN = 500
# Rows from which examples are shown.
_FIRST = 100
# Bytes of values: DuckDB cannot sort wider rows in little memory.
_LINE = 2 << 10
# Bytes of a value that is never split, however many there are in a line.
_SHORT = 128

# The sample `number` of shard `shard` has the position shard << 32 | number. A row of the table is
# one line of `rows`, or several if it has long values: the one with rest = 0 has its value to join
# on. `pairs` has the values on both sides, with the first row of each, how many rows have it, and
# how many samples, the first of which is at `position`.
_PAIRS = """
CREATE TABLE pairs AS
SELECT value, min(row) AS row, count(*) AS rows, any_value(samples) AS samples, any_value(position) AS position
FROM rows JOIN (
    SELECT value, count(*) AS samples, min(position) AS position FROM samples WHERE value IS NOT NULL GROUP BY value
) USING (value) GROUP BY value
"""
_IS_AMBIGUOUS = {
    "refuse": "false",
    "each": "false",
    "drop": "pairs.rows > 1 OR pairs.samples > 1",
    "first": "samples.position <> pairs.position",
}
_OUTCOMES = f"""
CREATE TABLE outcomes AS
SELECT samples.position, CASE WHEN damaged THEN {DAMAGED} WHEN samples.value IS NULL THEN {WITHOUT}
    WHEN pairs.row IS NULL THEN {ABSENT} WHEN %s THEN {AMBIGUOUS} ELSE pairs.row END AS row
FROM samples LEFT JOIN pairs ON samples.value = pairs.value ORDER BY samples.position
"""
_VALUES = """
CREATE TABLE sample_values AS
SELECT position, rest, %s FROM rows JOIN outcomes USING (row) ORDER BY position, rest DESC
"""
_UNMATCHED = "rows ANTI JOIN pairs USING (value) WHERE value IS NOT NULL"
_COMPARED = (
    "samples JOIN pairs USING (value) JOIN rows USING (row) "
    "WHERE pairs.rows = 1 AND samples.{0} IS NOT NULL AND rows.{0} IS NOT NULL"
)


@dataclass
class Matches:
    """Outcomes of samples and rows. ``rows == used + unmatched_rows + ambiguous_rows + rows_without``.

    Attributes:
        matched: samples that have one row, or to which ``ambiguous`` gives one.
        by_rows: samples whose value is in several rows.
        by_samples: samples that share their value with other samples, and one row.
        examples: values of such rows.
        digests: by shard, a hash of the rows that its samples get; "" if it could not be read.
    """

    rows: int = 0
    rows_without: int = 0
    used: int = 0
    unmatched_rows: int = 0
    ambiguous_rows: int = 0
    matched: int = 0
    by_rows: int = 0
    by_samples: int = 0
    examples: list[str] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)


class Contradiction(NamedTuple):
    """Samples that contradict their rows: how many of those compared; key, table and shard of the first."""

    column: str
    samples: int
    compared: int
    evidence: list[tuple[str, str, str]]


class SampleJoin:
    """Holds the rows of the table, and the join values of samples. Use as a context manager.

    Args:
        folder: exists; for data that does not fit into memory.
        on: the value of the join.
        columns: those whose values samples get.
        checked: columns that show whether keys still mean the samples of the table.

    ``rows``: how many rows there are; ``valued``: how many have a value to join on. Raises
    TablesError if the folder is full.
    """

    def __init__(
        self, folder: Path, on: JoinOn, columns: Sequence[str], checked: Sequence[str] = ()
    ) -> None:
        self._on, self._columns, self._checked = on, list(columns), list(checked)
        self._cells = [
            f"{name}{number}" for number in range(len(self._columns)) for name in ("kind", "data")
        ]
        self._tables = Tables(folder)
        self.rows = self.valued = 0
        cells = "".join(
            f", kind{number} kind, data{number} BLOB" for number in range(len(self._columns))
        )
        checks = "".join(f", check{number} VARCHAR" for number in range(len(self._checked)))
        self._tables.run(f"CREATE TYPE kind AS ENUM {KINDS}")
        self._tables.run(
            f"CREATE TABLE rows (row BIGINT, rest INTEGER, value VARCHAR{cells}{checks})"
        )
        self._tables.run(
            f"CREATE TABLE samples (position BIGINT, value VARCHAR, damaged BOOLEAN{checks})"
        )

    def read(self, table: TableFiles) -> None:
        """Add the rows of a table. Raises TableError."""
        for path in table.files:
            query = table.query(path, self._on, self._columns, self._checked)
            if not query or not self._read_quickly(query):
                for values, rows in table.batches(path, self._on, [*self._columns, *self._checked]):
                    self._add(values, rows)
            query = "SELECT count(*) FILTER (rest = 0), count(value) FROM rows"
            self.rows, self.valued = self._tables.one(query)

    def _read_quickly(self, query: str) -> bool:
        """Read a file with DuckDB; return whether it could. Otherwise nothing was added."""
        import duckdb

        try:
            self._tables.run(f"INSERT INTO rows {query}", self.rows)
        except duckdb.Error:
            return False
        except TablesError as error:
            if error.errno != errno.EIO:
                raise
            return False
        return True

    def _add(self, values: Sequence[str | None], rows: Sequence[Sequence[object]]) -> None:
        columns = list(zip(*rows, strict=True))
        width = len(self._columns)
        stored = [list(zip(*map(stored_value, column), strict=True)) for column in columns[:width]]
        lines = Lines.of([data for _, data in stored], max(_LINE // width, _SHORT))
        cells: dict[str, list[str] | list[bytes | None]] = {}
        for number, (kinds, data) in enumerate(stored):
            cells[f"kind{number}"] = lines.repeated(kinds)
            cells[f"data{number}"] = lines.parts(data)
        checks = {}
        for number, column in enumerate(self._checked):
            texts = [join_text(cell, column) for cell in columns[width + number]]
            checks[f"check{number}"] = lines.at_end(texts)
        self._tables.add(
            "rows",
            row=lines.rows + self.rows,
            rest=lines.rests,
            value=lines.at_end(values),
            **cells,
            **checks,
        )
        self.rows += len(rows)

    def add_samples(self, shard: int, joins: Iterable[JoinValues]) -> None:
        """Add all samples of a shard."""
        import numpy as np

        position = shard << 32
        for part in joins:
            count = len(part.values)
            checks = {
                f"check{number}": [values[number] if values else None for values in part.checked]
                for number in range(len(self._checked))
            }
            damaged = np.zeros(count, np.bool_)
            damaged[part.damaged] = True
            positions = np.arange(position, position + count, dtype=np.int64)
            self._tables.add(
                "samples", position=positions, value=part.values, damaged=damaged, **checks
            )
            position += count

    def values_of_rows(self) -> list[str]:
        """Return the join values of the first 100 rows."""
        found = self._tables.rows(
            "SELECT value FROM rows WHERE value IS NOT NULL AND row < ? ORDER BY row", _FIRST
        )
        return [_shown(value) for (value,) in found]

    def values_of_samples(self, most: int) -> list[str]:
        """Return the join values of the first samples."""
        query = "SELECT value FROM samples WHERE value IS NOT NULL ORDER BY position LIMIT ?"
        return [_shown(value) for (value,) in self._tables.rows(query, most)]

    def join(self) -> Matches:
        """Find the rows of all samples, without assigning them yet."""
        self._tables.run(_PAIRS)
        matches = Matches(self.rows, self.rows - self.valued)
        matches.by_rows, matches.by_samples = self._tables.one(
            "SELECT coalesce(sum(samples) FILTER (rows > 1), 0)::BIGINT, "
            "coalesce(sum(samples) FILTER (rows = 1 AND samples > 1), 0)::BIGINT FROM pairs"
        )
        # The first such samples of each shard.
        if matches.by_rows + matches.by_samples:
            examples = self._tables.rows(
                "SELECT value FROM (SELECT row, value FROM samples JOIN pairs USING (value) WHERE rows > 1 OR samples > 1 "
                "QUALIFY row_number() OVER (PARTITION BY samples.position >> 32 ORDER BY samples.position) <= $1) "
                "GROUP BY row, value ORDER BY row LIMIT $1",
                _EXAMPLES,
            )
            matches.examples = [_shown(value) for (value,) in examples]
        return matches

    def contradiction(self) -> Contradiction | None:
        """Return the checked column in which most samples differ from their rows. Call it after ``join``."""
        found: Contradiction | None = None
        for number, column in enumerate(self._checked):
            check = f"check{number}"
            source, differ = _COMPARED.format(check), f"samples.{check} <> rows.{check}"
            compared, count = self._tables.one(
                f"SELECT count(*), count(*) FILTER ({differ}) FROM {source}"
            )
            if count and (found is None or count > found.samples):
                evidence = self._tables.rows(
                    f"SELECT value, rows.{check}, samples.{check} FROM {source} AND {differ} ORDER BY samples.position LIMIT ?",
                    _EXAMPLES,
                )
                texts = [
                    (_shown(value), there[:_SHOWN], here[:_SHOWN])
                    for value, there, here in evidence
                ]
                found = Contradiction(column, count, compared, texts)
        return found

    def give(self, matches: Matches, shards: Sequence[Path | None], ambiguous: Ambiguous) -> None:
        """Assign rows to samples, count in the ``matches`` of ``join``, and write ``ROWS`` and ``VALUES`` of each shard.

        ``shards``: the path of the files of each, without ending; None if it could not be read.
        ``ambiguous``: the policy for samples that share a value, and for samples whose value is in
        several rows.
        """
        from xxhash import xxh3_64_hexdigest

        gets = "rows = 1 AND samples = 1" if ambiguous == "drop" else "true"
        counted = "1" if ambiguous == "first" else "samples"
        asked, matches.used, matches.matched = self._tables.one(
            f"SELECT coalesce(sum(rows), 0)::BIGINT, count(*) FILTER ({gets}), "
            f"coalesce(sum({counted}) FILTER ({gets}), 0)::BIGINT FROM pairs"
        )
        matches.unmatched_rows, matches.ambiguous_rows = self.valued - asked, asked - matches.used
        self._tables.run(_OUTCOMES % _IS_AMBIGUOUS[ambiguous])
        # Several sort wide rows only in more memory.
        self._tables.run("SET threads = 1")
        self._tables.run(_VALUES % ", ".join(self._cells))
        for number, path in enumerate(shards):
            if path is None:
                matches.digests.append("")
                continue
            rows = self._write(number, path)
            matches.digests.append(xxh3_64_hexdigest(rows))

    def _write(self, shard: int, path: Path) -> bytes:
        """Write the files of a shard: the row of each sample, which is returned as well, and the values of those rows."""
        inside = f"position >= {shard << 32} AND position < {shard + 1 << 32}"
        rows = self._tables.arrays(f"SELECT row FROM outcomes WHERE {inside} ORDER BY position")[
            "row"
        ].tobytes()
        path.with_suffix(ROWS).write_bytes(rows)
        target = str(path.with_suffix(VALUES)).replace("'", "''")
        self._tables.run(
            f"COPY (SELECT rest, {', '.join(self._cells)} FROM sample_values WHERE {inside} ORDER BY position, rest DESC) "
            f"TO '{target}' (FORMAT parquet, COMPRESSION uncompressed, ROW_GROUP_SIZE {LINES_AT_ONCE})"
        )
        return rows

    def unmatched(self, most: int) -> list[str]:
        """Return the values of the first rows that no sample has."""
        found = self._tables.rows(f"SELECT value FROM {_UNMATCHED} ORDER BY row LIMIT ?", most)
        return [value.replace("\0", "/") for (value,) in found]

    def unmatched_lines(self) -> Iterator[str]:
        """Yield a line of JSON for each row that no sample has, thousands at a time: its number from 1, and its value."""
        import orjson

        column = self._on.column
        # A duplicate name has its last value.
        number = "" if column == "row" else "(row + 1) || ',' ||"
        found = self._tables.batches(
            f"""SELECT '{{"row":' || {number} $1 || to_json(replace(value, chr(0), '/')) || '}}\n'
            FROM {_UNMATCHED} ORDER BY row""",
            "" if column == "row" else orjson.dumps(column).decode() + ":",
        )
        return ("".join(chain.from_iterable(lines)) for lines in found)

    def __enter__(self) -> "SampleJoin":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._tables.__exit__()


def _shown(value: str) -> str:
    """Return a value without the shard to which it is limited."""
    return value.rpartition("\0")[2]
