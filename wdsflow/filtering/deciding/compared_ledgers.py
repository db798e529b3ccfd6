"""The samples that a score compares, read from the ledgers of all shards.

DuckDB reads one ledger at a time.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from wdsflow.expressions.constants import literal
from wdsflow.expressions.ledger_sql import NUMBER, with_number
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.expressions.sql import quoted_name
from wdsflow.filtering.ledger.column_names import column_of, gathered_column, names_in_file
from wdsflow.filtering.ledger.ledger_metadata import (
    LedgerError,
    LedgerMetadata,
    NotCompared,
    calls_of,
    read_metadata,
)
from wdsflow.filtering.ledger.read_ledger import read_ledger
from wdsflow.filtering.predicates.catalog import RankedNumber
from wdsflow.filtering.predicates.gathered_data import gathers_same_data
from wdsflow.records.run_folder import Layout
from wdsflow.table_files.parquet_file import pattern_of
from wdsflow.tables import Tables

from .compared_rows import compared_rows
from .compared_values import add_values, forget_compared
from .plan import FilterPlan


class ComparedLedgers:
    """Reads the samples that scores compare into the tables ``ledger`` and ``compared``.

    Args:
        plan: has the scores.
        shards: numbers and names of the shards, in order.
        scored: has a ledger of each shard.
        target: has the values of the comparisons that are done.
    """

    def __init__(
        self, plan: FilterPlan, shards: Sequence[tuple[int, str]], scored: Layout, target: Layout
    ) -> None:
        self._plan = plan
        self._shards = shards
        self._scored = scored
        self._target = target

    def insert(self, tables: Tables, call: ScoreCall) -> None:
        """Insert the samples that a score compares into the table ``compared``.

        Raises LedgerError.
        """
        for shard in self._read(tables, call):
            tables.run(
                f"INSERT INTO compared SELECT {shard}, sample, key, number, data FROM ledger"
            )

    def records(self, tables: Tables, call: ScoreCall) -> Iterator[tuple[int, int, bytes]]:
        """Yield shard, sample and gathered data of the samples that a score compares.

        Raises LedgerError.
        """
        for shard in self._read(tables, call):
            for sample, data in tables.rows("SELECT sample, data FROM ledger"):
                yield shard, sample, data

    def _read(self, tables: Tables, call: ScoreCall) -> Iterator[int]:
        """Fill the table ``ledger`` with the samples of each shard in turn; yield its number."""
        import duckdb

        for shard, name in self._shards:
            path = self._scored.ledger(name)
            try:
                tables.run(
                    f"CREATE OR REPLACE TABLE ledger AS {self._readable_samples_query(read_metadata(path), path, call)}"
                )
            except duckdb.Error as error:
                raise LedgerError(f"{path} cannot be read: {error}") from None
            if call in self._plan.compared_among_kept:
                self._delete_excluded(tables, name, call)
            # Samples without a number or data, for which a score is missing that was not computed.
            for sample, missing in tables.rows(
                "SELECT sample, missing FROM ledger WHERE missing IS NOT NULL LIMIT 1"
            ):
                raise _not_compared_error(path, call, sample, missing)
            yield shard

    def _delete_excluded(self, tables: Tables, name: str, call: ScoreCall) -> None:
        """Delete the samples of a shard that other terms exclude."""
        import numpy as np

        members = kept_members(self._plan, self._scored, self._target, name, call)
        tables.run("CREATE OR REPLACE TABLE members (member UINTEGER)")
        tables.add("members", member=np.array(members, np.uint32))
        tables.run("DELETE FROM ledger WHERE sample NOT IN (SELECT member FROM members)")

    def _readable_samples_query(self, metadata: LedgerMetadata, path: Path, call: ScoreCall) -> str:
        """Return the query for the readable samples of a ledger: see ``compared_table``.

        ``missing`` is the score that is not computed for a sample, and NULL if it can be compared.
        Samples for which the score has failed are left out.
        """
        number = self._plan.ranks.get(call)
        names = names_in_file(calls_of(metadata), metadata["gathered"])
        # Folders may be called like ``key=1``: they are no columns.
        source = f"read_parquet({literal(pattern_of(path))}, hive_partitioning = false)"
        source = f"(SELECT * FROM {source} WHERE trouble IS NULL)"
        return (
            _query_of_data(metadata, names, source, call)
            if number is None
            else _query_of_number(metadata, names, source, number)
        )


def kept_members(
    plan: FilterPlan, scored: Layout, target: Layout, name: str, call: ScoreCall
) -> list[int]:
    """Return the numbers of a shard's samples that all other terms keep. Raises LedgerError."""
    samples, _ = read_ledger(scored.ledger(name))
    forget_compared(plan, samples)
    add_values(plan, samples, target, name, plan.compared_among_all)
    return [row.number for row in compared_rows(plan, samples, call)]


def _query_of_data(
    metadata: LedgerMetadata, names: dict[str, str], source: str, call: ScoreCall
) -> str:
    """Return the query for samples that are compared by gathered data."""
    related = [
        other for other in calls_of(metadata) if other != call and gathers_same_data(call, other)
    ]
    calls = [other for other in (call, *related) if str(other) in metadata["gathered"]]
    columns = [quoted_name(names[gathered_column(str(other))]) for other in calls]
    data = f"coalesce({', '.join(columns)}, NULL)" if columns else "NULL::BLOB"
    failed = " OR ".join(_sql_is_failed(other) for other in (call, *related))
    missing = f"CASE WHEN {data} IS NULL THEN {literal(str(call))} END"
    return (
        f"SELECT sample, key, NULL::DOUBLE AS number, {data} AS data, {missing} AS missing FROM {source}"
        f" WHERE {data} IS NOT NULL OR NOT ({failed})"
    )


def _query_of_number(
    metadata: LedgerMetadata, names: dict[str, str], source: str, ranked: RankedNumber
) -> str:
    """Return the query for samples that are ranked by a number."""
    stored = calls_of(metadata)
    columns = {call: names[column_of(str(call))] for call in ranked.calls if call in stored}
    absent = [call for call in ranked.calls if call not in stored]
    if absent:
        # The ledger of a filter that did not need it.
        return (
            f"SELECT sample, key, NULL::DOUBLE AS number, NULL::BLOB AS data, {literal(str(absent[0]))} AS missing"
            f" FROM {source}"
        )
    source = (
        f"({with_number(ranked.expression, source, columns, largest=ranked.score.end == 'bottom')})"
    )
    cases = []
    for call, column in columns.items():
        is_computed = f"{quoted_name(column)} IS NOT NULL OR {_sql_is_failed(call)} OR {_sql_has_several_values(call)}"
        cases.append(f"WHEN NOT ({is_computed}) THEN {literal(str(call))}")
    missing = f"CASE WHEN {NUMBER} IS NULL THEN CASE {' '.join(cases)} END END"
    return (
        f"SELECT sample, key, {NUMBER} AS number, NULL::BLOB AS data, {missing} AS missing FROM {source}"
        f" WHERE {NUMBER} IS NOT NULL OR {missing} IS NOT NULL"
    )


def _sql_is_failed(call: ScoreCall) -> str:
    """Return the SQL for whether a score could not be computed."""
    return f"coalesce(list_contains([failure.score FOR failure IN failed], {literal(str(call))}), false)"


def _sql_has_several_values(call: ScoreCall) -> str:
    """Return the SQL for whether a sample has several values of a score."""
    return f"coalesce(list_contains(json_keys(several), {literal(str(call))}), false)"


def _not_compared_error(path: Path, call: ScoreCall, sample: int, missing: str) -> NotCompared:
    if missing != str(call):
        return NotCompared(
            missing, f"{path} has no {missing} of sample {sample}, which is ranked by it"
        )
    return NotCompared(
        missing, f"{path} has no data of {call} to compare, for sample {sample}: measure again"
    )
