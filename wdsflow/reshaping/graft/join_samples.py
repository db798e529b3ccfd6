"""The join of all rows of the table with all samples."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from wdsflow.joining.join_on import JoinOn
from wdsflow.joining.join_options import Ambiguous
from wdsflow.joining.loaded_rows import LoadedRows, without_shard_prefix
from wdsflow.joining.value_lines import LINES_AT_ONCE

from .join_values import JoinValues
from .matches import ABSENT, AMBIGUOUS, DAMAGED, ROWS, VALUES, WITHOUT, Contradiction, Matches

_EXAMPLES = 3
# Characters of an example.
_SHOWN = 500

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
_BY_AMBIGUITY = """
SELECT coalesce(sum(samples) FILTER (rows > 1), 0)::BIGINT,
    coalesce(sum(samples) FILTER (rows = 1 AND samples > 1), 0)::BIGINT FROM pairs
"""
# The first samples of each shard that are ambiguous.
_AMBIGUOUS_VALUES = """
SELECT value FROM (
    SELECT row, value FROM samples JOIN pairs USING (value) WHERE rows > 1 OR samples > 1
    QUALIFY row_number() OVER (PARTITION BY samples.position >> 32 ORDER BY samples.position) <= $1
) GROUP BY row, value ORDER BY row LIMIT $1
"""
# How many rows are in pairs, how many of them are used, and how many samples have one.
_COUNTS = """
SELECT coalesce(sum(rows), 0)::BIGINT, count(*) FILTER ({is_used}),
    coalesce(sum({samples}) FILTER ({is_used}), 0)::BIGINT FROM pairs
"""
_COMPARED = (
    "samples JOIN pairs USING (value) JOIN rows USING (row) "
    "WHERE pairs.rows = 1 AND samples.{0} IS NOT NULL AND rows.{0} IS NOT NULL"
)


class SampleJoin:
    """Holds the rows of the table, and the join values of samples. Use as a context manager.

    Args:
        folder: exists; for data that does not fit into memory.
        on: the value of the join.
        columns: those whose values samples get.
        checked: columns that show whether keys still mean the samples of the table.

    Raises TablesError if the folder is full.
    """

    def __init__(
        self, folder: Path, on: JoinOn, columns: Sequence[str], checked: Sequence[str] = ()
    ) -> None:
        self._on = on
        self._checked = list(checked)
        self.table = LoadedRows(folder, on, columns, checked)
        self._tables = self.table.tables
        checks = "".join(f", check{number} VARCHAR" for number in range(len(self._checked)))
        self._tables.run(
            f"CREATE TABLE samples (position BIGINT, value VARCHAR, damaged BOOLEAN{checks})"
        )

    def add_samples(self, shard: int, joins: Iterable[JoinValues]) -> None:
        """Add all samples of a shard."""
        import numpy as np

        position = shard << 32
        for part in joins:
            count = len(part.values)
            checks = {}
            for number in range(len(self._checked)):
                # Damaged samples have no values.
                column = [values[number] if values else None for values in part.checked]
                checks[f"check{number}"] = column
            damaged = np.zeros(count, np.bool_)
            damaged[part.damaged] = True
            positions = np.arange(position, position + count, dtype=np.int64)
            self._tables.add(
                "samples", position=positions, value=part.values, damaged=damaged, **checks
            )
            position += count

    def values_of_samples(self, most: int) -> list[str]:
        """Return the join values of the first samples."""
        query = "SELECT value FROM samples WHERE value IS NOT NULL ORDER BY position LIMIT ?"
        return [without_shard_prefix(value) for (value,) in self._tables.rows(query, most)]

    def match_rows(self) -> Matches:
        """Find the rows of all samples, without assigning them yet."""
        self._tables.run(_PAIRS)
        matches = Matches(self.table.rows, self.table.rows - self.table.rows_with_value)
        matches.by_rows, matches.by_samples = self._tables.one(_BY_AMBIGUITY)
        if matches.by_rows + matches.by_samples:
            examples = self._tables.rows(_AMBIGUOUS_VALUES, _EXAMPLES)
            matches.examples = [without_shard_prefix(value) for (value,) in examples]
        return matches

    def contradiction(self) -> Contradiction | None:
        """Return the checked column in which most samples differ from their rows.

        None if no sample differs. Call it after ``match_rows``.
        """
        worst: Contradiction | None = None
        for number, column in enumerate(self._checked):
            check = f"check{number}"
            source = _COMPARED.format(check)
            differ = f"samples.{check} <> rows.{check}"
            compared, count = self._tables.one(
                f"SELECT count(*), count(*) FILTER ({differ}) FROM {source}"
            )
            if not count or (worst is not None and count <= worst.samples):
                continue
            examples = self._tables.rows(
                f"SELECT value, rows.{check}, samples.{check} FROM {source} AND {differ} ORDER BY samples.position LIMIT ?",
                _EXAMPLES,
            )
            evidence = []
            for value, in_table, in_shard in examples:
                evidence.append((without_shard_prefix(value), in_table[:_SHOWN], in_shard[:_SHOWN]))
            worst = Contradiction(column, count, compared, evidence)
        return worst

    def assign(self, matches: Matches, shards: Sequence[Path | None], ambiguous: Ambiguous) -> None:
        """Assign rows to samples, and write ``ROWS`` and ``VALUES`` of each shard.

        Counts in the ``matches`` of ``match_rows``.

        ``shards``: the path of the files of each, without ending; None if it could not be read.
        ``ambiguous``: the policy for samples that share a value, and for samples whose value is in
        several rows.
        """
        from xxhash import xxh3_64_hexdigest

        is_used = "rows = 1 AND samples = 1" if ambiguous == "drop" else "true"
        samples = "1" if ambiguous == "first" else "samples"
        counts = self._tables.one(_COUNTS.format(is_used=is_used, samples=samples))
        rows_in_pairs, matches.used, matches.matched = counts
        matches.unmatched_rows = self.table.rows_with_value - rows_in_pairs
        matches.ambiguous_rows = rows_in_pairs - matches.used
        self._tables.run(_OUTCOMES % _IS_AMBIGUOUS[ambiguous])
        # Several sort wide rows only in more memory.
        self._tables.run("SET threads = 1")
        self._tables.run(_VALUES % ", ".join(self.table.cells))
        for number, path in enumerate(shards):
            if path is None:
                matches.digests.append("")
                continue
            rows = self._write(number, path)
            matches.digests.append(xxh3_64_hexdigest(rows))

    def _write(self, shard: int, path: Path) -> bytes:
        """Write the files of a shard: the row of each sample, and the values of those rows.

        Returns the rows.
        """
        is_inside = f"position >= {shard << 32} AND position < {shard + 1 << 32}"
        outcomes = self._tables.arrays(
            f"SELECT row FROM outcomes WHERE {is_inside} ORDER BY position"
        )
        rows = outcomes["row"].tobytes()
        path.with_suffix(ROWS).write_bytes(rows)
        target = str(path.with_suffix(VALUES)).replace("'", "''")
        self._tables.run(
            f"COPY (SELECT rest, {', '.join(self.table.cells)} FROM sample_values WHERE {is_inside} ORDER BY position, rest DESC) "
            f"TO '{target}' (FORMAT parquet, COMPRESSION uncompressed, ROW_GROUP_SIZE {LINES_AT_ONCE})"
        )
        return rows

    def unmatched(self, most: int) -> list[str]:
        """Return the values of the first rows that no sample has."""
        values = self._tables.rows(f"SELECT value FROM {_UNMATCHED} ORDER BY row LIMIT ?", most)
        return [value.replace("\0", "/") for (value,) in values]

    def unmatched_lines(self) -> Iterator[str]:
        """Yield JSON lines for the rows that no sample has, thousands at a time.

        A line has the number of the row, from 1, and its value.
        """
        import orjson

        column = self._on.column
        if column == "row":
            # Of two equal names, the last counts: no number, so that the value has the name.
            number, name = "", ""
        else:
            number, name = "(row + 1) || ',' ||", orjson.dumps(column).decode() + ":"
        batches = self._tables.batches(
            f"""SELECT '{{"row":' || {number} $1 || to_json(replace(value, chr(0), '/')) || '}}\n'
            FROM {_UNMATCHED} ORDER BY row""",
            name,
        )
        for lines in batches:
            yield "".join(chain.from_iterable(lines))

    def __enter__(self) -> "SampleJoin":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.table.__exit__()
