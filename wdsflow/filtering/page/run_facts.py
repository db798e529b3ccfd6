"""What a finished run wrote down: its shards, its recipe, and the rows of its ledgers."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wdsflow.filtering.folder.layout import Layout, records_in_order
from wdsflow.filtering.folder.shard_record import ShardRecord
from wdsflow.filtering.ledger.ledger import read_ledger
from wdsflow.filtering.ledger.ledger_row import LedgerError, Row, calls_of, read_about
from wdsflow.filtering.where.language.values import Call

MOST_ROWS = 200_000
SEED = 0


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run, as its folder describes it."""

    folder: Path
    run: dict[str, Any]  # what was asked: "kind", "urls", "recipe" ...
    records: tuple[ShardRecord, ...]  # in the order of the shards

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe, as JSON holds it."""
        found = self.run.get("recipe")
        return found if isinstance(found, dict) else {}

    @property
    def kind(self) -> str:
        """The command: "filter", "score" or "cut"."""
        return str(self.run.get("kind", ""))

    def total(self, name: str) -> int:
        """Sum a number over the shards."""
        return sum(int(getattr(record, name)) for record in self.records)

    def merged(self, name: str) -> Counter[str]:
        """Sum counts by name over the shards."""
        found: Counter[str] = Counter()
        for record in self.records:
            found.update(getattr(record, name))
        return found


def read_run(folder: Path) -> RunFacts:
    """Return the facts of a run. Raises LedgerError if no run wrote to the folder, or if it has finished no shard."""
    layout = Layout(folder)
    try:
        run = json.loads(layout.run_file.read_bytes())
        records = tuple(records_in_order(layout))
    except (OSError, ValueError):
        raise LedgerError(
            f"{folder} is not the folder of a run: give the one that filter, score or cut wrote"
        ) from None
    if not isinstance(run, dict):
        raise LedgerError(f"{layout.run_file} is damaged: it does not describe a run")
    if not records:
        raise LedgerError(f"{folder} holds a run that has finished no shard: run the command again to resume it")
    return RunFacts(folder, run, records)


def scores_of(facts: RunFacts) -> dict[Call, str]:
    """Return the scores that all ledgers of a run have, with their kinds. Raises LedgerError."""
    layout = Layout(facts.folder)
    common: dict[Call, str] | None = None
    for record in facts.records:
        found = calls_of(read_about(layout.ledger(record.name)))
        common = found if common is None else {call: kind for call, kind in common.items() if call in found}
    return common or {}


def sampled_rows(facts: RunFacts, most: int = MOST_ROWS) -> Iterator[tuple[ShardRecord, list[Row]]]:
    """Yield the rows of each shard: all of them, or ``most`` that are drawn by a fixed seed. Raises LedgerError."""
    layout = Layout(facts.folder)
    total = facts.total("samples")
    drawn = np.sort(np.random.default_rng(SEED).choice(total, most, replace=False)) if total > most else None
    first = 0
    for record in facts.records:
        only = None
        if drawn is not None:
            low, high = np.searchsorted(drawn, (first, first + record.samples))
            only = (drawn[low:high] - first).tolist()
        first += record.samples
        yield record, read_ledger(layout.ledger(record.name), only)[0]
