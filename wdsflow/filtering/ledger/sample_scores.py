"""One sample in the ledgers of a run: its scores, and what became of it."""

import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from wdsflow.expressions.score_call import spelled
from wdsflow.filtering.predicates.values import Unknown, Value
from wdsflow.records.run_folder import Layout, records_in_order
from wdsflow.shards.shard_names import output_names
from wdsflow.table_files.parquet_file import ParquetError, ParquetFile, as_list

from .ledger_metadata import LedgerError, LedgerMetadata, no_ledgers
from .read_ledger import read_ledger
from .sample_table import LedgerRow, SampleTable

_OUTCOME = ("outcome", "term", "error", "detail")


class LedgerEntry(NamedTuple):
    """What the ledgers of a run say of a sample.

    ``outcome``: "" if the run only measured. ``scores``: by name.
    """

    outcome: str
    scores: dict[str, str]


class SampleScores:
    """Looks up samples in the ledgers of a run. Raises LedgerError if a folder has none."""

    def __init__(self, folder: Path) -> None:
        layout = Layout(folder)
        records = records_in_order(layout)
        if not records:
            raise no_ledgers(folder)
        self._paths = {
            os.path.realpath(record.url): layout.ledger(record.name) for record in records
        }
        self._names = {record.name: layout.ledger(record.name) for record in records}

    def of(self, url: str, key: str, offset: int) -> LedgerEntry | None:
        """Return the entry of the sample with a member header at ``offset``.

        None if the ledgers do not have the sample.

        A shard is that of its path, otherwise that of its name: also in the output of the run,
        where offsets differ and a key that occurs once decides. Raises LedgerError.
        """
        path = self._paths.get(os.path.realpath(url))
        samples, metadata = _read_samples(path or self._names.get(output_names([url])[0]))
        rows = [row for row in samples.rows if row.key == key]
        matches = []
        if path is not None:
            matches = [row for row in rows if row.start <= offset < row.end]
        if not matches and len(rows) == 1:
            matches = rows
        if not matches:
            return None
        row = matches[0]
        outcome = ""
        # A run that only measured keeps what it can read, which says nothing.
        if row.outcome != "kept" or metadata["recipe"]["where"]:
            outcome = _outcome_text(row)
        scores = {}
        for call, column in samples.columns.items():
            if row.number in column:
                scores[str(call)] = _shown(column[row.number])
        return LedgerEntry(outcome, scores)


@lru_cache(maxsize=1)
def _read_samples(path: Path | None) -> tuple[SampleTable, LedgerMetadata]:
    """Return the samples of a ledger with their outcomes, and its metadata."""
    if path is None:
        return SampleTable(), {}
    samples, metadata = read_ledger(path)
    try:
        arrays = ParquetFile(path).arrays(_OUTCOME)
    except (ParquetError, OSError) as error:
        raise LedgerError(f"{path} cannot be read: {error}") from None
    columns = [as_list(arrays[name]) for name in _OUTCOME]
    for row, outcome in zip(samples.rows, zip(*columns, strict=True), strict=True):
        row.outcome, row.term, row.error, row.detail = outcome
    return samples, metadata


def _outcome_text(row: LedgerRow) -> str:
    """Return an outcome and its reason, such as "dropped: min_side >= 200 is false"."""
    if row.outcome == "dropped" and row.error is None:
        # By a stage, or by the predicate.
        return f"dropped by {row.term}" if row.trouble else f"dropped: {row.term} is false"
    reasons = [reason for reason in (row.term, row.error, row.detail) if reason]
    return f"{row.outcome}: {', '.join(reasons)}" if reasons else row.outcome


def _shown(value: Value | Unknown) -> str:
    if value is None or isinstance(value, Unknown):
        return f"unknown ({value.slug})" if value else "unknown"
    return ", ".join(map(_shown, value)) if isinstance(value, list) else spelled(value)
