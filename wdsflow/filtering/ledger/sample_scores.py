"""The scores of single samples, by their place in a shard."""

import os
from functools import lru_cache
from pathlib import Path

from wdsflow.filtering.folder.layout import Layout, records_in_order
from wdsflow.filtering.kinds import names_of
from wdsflow.filtering.where.language.values import Unknown, Value, spelled

from .ledger import read_ledger
from .ledger_row import Row, no_ledgers


class SampleScores:
    """Looks up samples in the ledgers of a run. Raises LedgerError if a folder has none."""

    def __init__(self, folder: Path) -> None:
        layout = Layout(folder)
        records = records_in_order(layout)
        if not records:
            raise no_ledgers(folder)
        self._paths = {os.path.realpath(record.url): layout.ledger(record.name) for record in records}
        self._names = {record.name: layout.ledger(record.name) for record in records}

    def of(self, url: str, key: str, offset: int) -> dict[str, str]:
        """Return scores and outcome of the sample with a member header at ``offset``; nothing if there is none.

        A shard is found by its path, otherwise by its name: also in the output of the run, where offsets differ and a
        key that occurs once decides. Raises LedgerError.
        """
        path = self._paths.get(os.path.realpath(url))
        rows = [row for row in _rows(path or self._names.get(names_of([url])[0])) if row.key == key]
        found = next((row for row in rows if row.start <= offset < row.end), None) if path else None
        if found is None and len(rows) == 1:
            found = rows[0]
        return {str(call): _shown(value) for call, value in found.values.items()} if found is not None else {}


@lru_cache(maxsize=1)
def _rows(path: Path | None) -> list[Row]:
    return read_ledger(path)[0] if path is not None else []


def _shown(value: "Value | Unknown") -> str:
    if value is None or isinstance(value, Unknown):
        return f"unknown ({value.slug})" if value else "unknown"
    return ", ".join(map(_shown, value)) if isinstance(value, list) else spelled(value)
