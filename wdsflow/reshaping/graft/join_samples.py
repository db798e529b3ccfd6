"""The join of all rows of the table with all samples."""

import base64
import errno
import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import NamedTuple

from wdsflow.reshaping.options import Ambiguous
from wdsflow.tables import Tables, TablesError

from .join_on import JoinOn, join_text
from .look_shard import CELLS, ROWS, JoinValues
from .table_rows import TableFiles

# In place of a row: none has the value, no value to join on, a sample next to damage, see Ambiguous.
ABSENT, WITHOUT, DAMAGED, AMBIGUOUS = -1, -2, -3, -4
_EXAMPLES = 3
_SHOWN = 500  # characters of an example
_FIRST = 100  # rows from which examples are shown
_LARGE = 2 << 10  # bytes of a row's values that the database holds: it sorts them
_SORTED = 64 << 20  # bytes of values: sorts larger than memory may fail for wide rows
_END = (1 << 63) - 1  # beyond all places
_ELSEWHERE = b"@"

# The sample `number` of shard `shard` has the place shard << 32 | number. `pairs` has the values on both sides, with the
# first row of each, how many rows have it, and how many samples, the first of which is at `place`.
_PAIRS = """
CREATE TABLE pairs AS SELECT value, min(row) AS row, count(*) AS rows, any_value(samples) AS samples, any_value(place) AS place
FROM rows JOIN (SELECT value, count(*) AS samples, min(place) AS place FROM samples WHERE value IS NOT NULL GROUP BY value)
USING (value) GROUP BY value
"""
_IS_AMBIGUOUS = {
    "refuse": "false",
    "each": "false",
    "drop": "pairs.rows > 1 OR pairs.samples > 1",
    "first": "samples.place <> pairs.place",
}
_GIVEN = f"""
CREATE TABLE given AS SELECT place, given, cells FROM (
    SELECT samples.place, CASE WHEN damaged THEN {DAMAGED} WHEN samples.value IS NULL THEN {WITHOUT}
        WHEN pairs.row IS NULL THEN {ABSENT} WHEN %s THEN {AMBIGUOUS} ELSE pairs.row END AS given
    FROM samples LEFT JOIN pairs ON samples.value = pairs.value
) LEFT JOIN rows ON rows.row = given
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

    ``rows``: how many rows there are; ``valued``: how many have a value to join on. Raises TablesError if the folder is full.
    """

    def __init__(self, folder: Path, on: JoinOn, columns: Sequence[str], checked: Sequence[str] = ()) -> None:
        self._on, self._columns, self._checked = on, list(columns), list(checked)
        with ExitStack() as stack:
            self._tables = stack.enter_context(Tables(folder))
            self._large = stack.enter_context(open(folder / "large", "w+b"))
            self._stack = stack.pop_all()
        self.rows = self.valued = 0
        checks = "".join(f", check{place} VARCHAR" for place in range(len(self._checked)))
        self._tables.run(f"CREATE TABLE rows (row BIGINT, value VARCHAR, cells BLOB{checks})")
        self._tables.run(f"CREATE TABLE samples (place BIGINT, value VARCHAR, damaged BOOLEAN{checks})")

    def read(self, table: TableFiles) -> None:
        """Add the rows of a table. Raises TableError."""
        for path in table.files:
            query = table.query(path, self._on, self._columns, self._checked)
            if not query or not self._read_quickly(query, path):
                for values, rows in table.batches(path, self._on, [*self._columns, *self._checked]):
                    self._add(values, rows)
            self.rows, self.valued = self._tables.one("SELECT count(*), count(value) FROM rows")

    def _read_quickly(self, query: str, path: Path) -> bool:
        """Read a file with DuckDB; return whether it could. Otherwise nothing was added."""
        import duckdb

        try:
            self._tables.run(f"INSERT INTO rows {query}", self.rows, str(path))
        except duckdb.Error:
            return False
        except TablesError as error:
            if error.errno != errno.EIO:
                raise
            return False
        return True

    def _add(self, values: Sequence[str | None], rows: Sequence[Sequence[object]]) -> None:
        import numpy as np

        width = len(self._columns)
        cells = [self._kept(_coded(row[:width])) for row in rows]
        checks = {
            f"check{place}": [join_text(row[width + place], column) for row in rows]
            for place, column in enumerate(self._checked)
        }
        numbers = np.arange(self.rows, self.rows + len(cells))
        self._tables.add("rows", row=numbers, value=values, cells=cells, **checks)
        self.rows += len(cells)

    def _kept(self, cells: bytes) -> bytes:
        """Return the values as stored in the database."""
        if len(cells) <= _LARGE:
            return cells
        at = self._large.tell()
        self._large.write(cells)
        return b"%b%d %d" % (_ELSEWHERE, at, len(cells))

    def _whole(self, cells: bytes) -> bytes:
        if not cells.startswith(_ELSEWHERE):
            return cells
        start, size = map(int, cells[1:].split())
        self._large.seek(start)
        return self._large.read(size)

    def add_samples(self, shard: int, joins: Iterable[JoinValues]) -> None:
        """Add all samples of a shard."""
        import numpy as np

        place = shard << 32
        for part in joins:
            count = len(part.values)
            checks = {
                f"check{number}": [values[number] if values else None for values in part.checked]
                for number in range(len(self._checked))
            }
            damaged = np.zeros(count, np.bool_)
            damaged[part.damaged] = True
            places = np.arange(place, place + count, dtype=np.int64)
            self._tables.add("samples", place=places, value=part.values, damaged=damaged, **checks)
            place += count

    def values_of_rows(self) -> list[str]:
        """Return the join values of the first 100 rows."""
        found = self._tables.rows("SELECT value FROM rows WHERE value IS NOT NULL AND row < ? ORDER BY row", _FIRST)
        return [_shown(value) for (value,) in found]

    def values_of_samples(self, most: int) -> list[str]:
        """Return the join values of the first samples."""
        query = "SELECT value FROM samples WHERE value IS NOT NULL ORDER BY place LIMIT ?"
        return [_shown(value) for (value,) in self._tables.rows(query, most)]

    def join(self) -> Matches:
        """Find the rows of all samples, without assigning them yet."""
        self._tables.run(_PAIRS)
        matches = Matches(self.rows, self.rows - self.valued)
        matches.by_rows, matches.by_samples = self._tables.one(
            "SELECT coalesce(sum(samples) FILTER (rows > 1), 0)::BIGINT, "
            "coalesce(sum(samples) FILTER (rows = 1 AND samples > 1), 0)::BIGINT FROM pairs"
        )
        if matches.by_rows + matches.by_samples:  # the first such samples of each shard
            examples = self._tables.rows(
                "SELECT value FROM (SELECT row, value FROM samples JOIN pairs USING (value) WHERE rows > 1 OR samples > 1 "
                "QUALIFY row_number() OVER (PARTITION BY samples.place >> 32 ORDER BY samples.place) <= $1) "
                "GROUP BY row, value ORDER BY row LIMIT $1",
                _EXAMPLES,
            )
            matches.examples = [_shown(value) for (value,) in examples]
        return matches

    def contradiction(self) -> Contradiction | None:
        """Return the checked column in which most samples differ from their rows. Call it after ``join``."""
        found: Contradiction | None = None
        for place, column in enumerate(self._checked):
            check = f"check{place}"
            source, differ = _COMPARED.format(check), f"samples.{check} <> rows.{check}"
            compared, count = self._tables.one(f"SELECT count(*), count(*) FILTER ({differ}) FROM {source}")
            if count and (found is None or count > found.samples):
                evidence = self._tables.rows(
                    f"SELECT value, rows.{check}, samples.{check} FROM {source} AND {differ} ORDER BY samples.place LIMIT ?",
                    _EXAMPLES,
                )
                texts = [(_shown(value), there[:_SHOWN], here[:_SHOWN]) for value, there, here in evidence]
                found = Contradiction(column, count, compared, texts)
        return found

    def give(self, matches: Matches, places: Sequence[Path | None], ambiguous: Ambiguous) -> None:
        """Assign rows to samples, count in the ``matches`` of ``join``, and write ``ROWS`` and ``CELLS`` of each shard.

        ``places``: by shard, the place of its files; None if unreadable. ``ambiguous``: the policy for samples
        that share a value, and for samples whose value is in several rows.
        """
        from xxhash import xxh3_64_hexdigest

        gets = "rows = 1 AND samples = 1" if ambiguous == "drop" else "true"
        counted = "1" if ambiguous == "first" else "samples"
        asked, matches.used, matches.matched = self._tables.one(
            f"SELECT coalesce(sum(rows), 0)::BIGINT, count(*) FILTER ({gets}), "
            f"coalesce(sum({counted}) FILTER ({gets}), 0)::BIGINT FROM pairs"
        )
        matches.unmatched_rows, matches.ambiguous_rows = self.valued - asked, asked - matches.used
        self._tables.run(_GIVEN % _IS_AMBIGUOUS[ambiguous])
        given = groupby(self._given(), lambda each: each[0] >> 32)
        shard, samples = next(given, (-1, iter(())))
        for number, place in enumerate(places):
            if place is None:
                matches.digests.append("")
                continue
            rows = array("q")
            with open(place.with_suffix(CELLS), "wb") as file:
                for _, row, cells in samples if number == shard else ():
                    rows.append(row)
                    if cells is not None:
                        file.writelines((self._whole(cells), b"\n"))
            if number == shard:
                shard, samples = next(given, (-1, iter(())))
            place.with_suffix(ROWS).write_bytes(rows.tobytes())
            matches.digests.append(xxh3_64_hexdigest(rows.tobytes()))

    def _given(self) -> Iterator[tuple[int, int, bytes | None]]:
        """Yield place, row and values of all samples by their places; not all values are sorted at once."""
        count, size = self._tables.one("SELECT count(*), coalesce(sum(octet_length(cells)), 0)::BIGINT FROM given")
        step = max(1, count * _SORTED // max(size, 1))
        starts = self._tables.rows(
            "SELECT place FROM (SELECT place, row_number() OVER (ORDER BY place) AS number FROM given) "
            "WHERE (number - 1) % ? = 0 ORDER BY place",
            step,
        )
        for start, end in pairwise([*(place for (place,) in starts), _END]):
            yield from self._tables.rows(
                "SELECT * FROM given WHERE place >= ? AND place < ? ORDER BY place", start, end
            )

    def unmatched(self, most: int) -> list[str]:
        """Return the values of the first rows that no sample has."""
        found = self._tables.rows(f"SELECT value FROM {_UNMATCHED} ORDER BY row LIMIT ?", most)
        return [value.replace("\0", "/") for (value,) in found]

    def unmatched_lines(self) -> Iterator[str]:
        """Yield a line of JSON for each row that no sample has, thousands at a time: its number from 1, and its value."""
        import orjson

        column = self._on.column
        number = "" if column == "row" else "(row + 1) || ',' ||"  # a duplicate name has its last value
        found = self._tables.batches(
            f"""SELECT '{{"row":' || {number} $1 || to_json(replace(value, chr(0), '/')) || '}}\n'
            FROM {_UNMATCHED} ORDER BY row""",
            "" if column == "row" else orjson.dumps(column).decode() + ":",
        )
        return ("".join(chain.from_iterable(lines)) for lines in found)

    def __enter__(self) -> "SampleJoin":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _shown(value: str) -> str:
    """Return a value without the shard to which it is limited."""
    return value.rpartition("\0")[2]


_WINDOW = 4 << 20  # bytes of rows that are decoded at once
_ROWS_AT_ONCE = 4096  # rows, at most
_CODED = b"~"


class Unusable(NamedTuple):
    """A value of the table that cannot be stored, and why."""

    reason: str


def _coded(row: Sequence[object]) -> bytes:
    """Return the values as one line, without its end."""
    import orjson

    try:
        return orjson.dumps(row, default=_as_text, option=orjson.OPT_PASSTHROUGH_SUBCLASS)
    except TypeError:  # bytes, lone surrogates, integers beyond 64 bits
        return _CODED + json.dumps([*map(_single, row)]).encode()


def decoded_at_once(lines: Iterator[bytes], rows: Sequence[int]) -> Iterator[list[list[object] | None]]:
    """Yield the values of neighbouring samples, in chunks: memory is bounded regardless of their size.

    Args:
        lines: the lines of the samples that have a row, in their order.
        rows: the row of each sample; those without one, below 0, have None.
    """
    at = 0
    while at < len(rows):
        start, size, texts = at, 0, list[bytes]()
        while at < len(rows) and at - start < _ROWS_AT_ONCE and size < _WINDOW:
            if rows[at] >= 0:
                texts.append(next(lines, b""))
                size += len(texts[-1])
            at += 1
        if texts and not texts[-1]:
            raise OSError("the rows of the samples are cut: they were changed while they were read")
        values = iter(_all_decoded(texts))
        yield [next(values) if row >= 0 else None for row in rows[start:at]]


def _as_text(value: object) -> str:
    """Return dates and the like as text. Raises TypeError for bytes, and for text and integers that orjson rejects."""
    if isinstance(value, (bytes, bytearray, str, int)):
        raise TypeError
    return str(value)


def _single(value: object) -> list[object]:
    if isinstance(value, bytes):
        return ["bytes", base64.b64encode(value).decode()]
    try:
        text = json.dumps(value, ensure_ascii=False, default=_as_text, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:
        return ["unusable", "text that UTF-8 cannot hold"]
    except (ValueError, TypeError, RecursionError):
        return ["json", None] if isinstance(value, float) else ["unusable", "a value that JSON cannot hold"]
    return ["json", json.loads(text)]


def _all_decoded(texts: Sequence[bytes]) -> Iterable[list[object]]:
    import orjson

    try:
        found: list[list[object]] = orjson.loads(b"[%b]" % b",".join(texts))
    except ValueError:  # some use the other encoding
        return map(_decoded, texts)
    return found


def _decoded(text: bytes) -> list[object]:
    import orjson

    if not text.startswith(_CODED):
        found: list[object] = orjson.loads(text)
        return found
    return [
        base64.b64decode(value) if kind == "bytes" else Unusable(value) if kind == "unusable" else value
        for kind, value in json.loads(text[1:])
    ]
