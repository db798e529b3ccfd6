"""A run, as its folder describes it.

The facts, the scores that all ledgers have, and the samples that a page shows.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.ledger.ledger_metadata import LedgerError, calls_of, read_metadata
from wdsflow.filtering.ledger.read_ledger import read_ledger
from wdsflow.filtering.ledger.sample_table import SampleTable
from wdsflow.records.report import OutputsReport
from wdsflow.records.run_folder import Layout, ShardRecord, records_in_order

MOST_ROWS = 200_000
SEED = 0


@dataclass
class RunFacts(OutputsReport[ShardRecord]):
    """A run, as its folder describes it."""

    folder: Path
    # The request: "kind", "urls", "recipe" ...
    run: dict[str, Any]
    # In the order of the shards.
    records: tuple[ShardRecord, ...]

    @property
    def outcomes(self) -> Sequence[ShardRecord]:
        """The shards, in order."""
        return self.records

    @property
    def recipe(self) -> dict[str, object]:
        """The recipe, as JSON holds it."""
        recipe = self.run.get("recipe")
        return recipe if isinstance(recipe, dict) else {}

    @property
    def kind(self) -> str:
        """The command: "filter" or "measure"."""
        return str(self.run.get("kind", ""))


def read_run(folder: Path) -> RunFacts:
    """Return the facts of a run.

    Raises LedgerError if no run wrote to the folder, or if it has finished no shard.
    """
    layout = Layout(folder)
    try:
        run = json.loads(layout.run_file.read_bytes())
        records = tuple(records_in_order(layout))
    except (OSError, ValueError):
        raise LedgerError(
            f"{folder} is not the folder of a run: give the one that filter or measure wrote"
        ) from None
    if not isinstance(run, dict):
        raise LedgerError(f"{layout.run_file} is damaged: it does not describe a run")
    if not records:
        raise LedgerError(
            f"{folder} holds a run that has finished no shard: run the command again to resume it"
        )
    return RunFacts(folder, run, records)


def scores_of(facts: RunFacts) -> dict[ScoreCall, str]:
    """Return the scores that all ledgers of a run have, with their kinds. Raises LedgerError."""
    layout = Layout(facts.folder)
    common: dict[ScoreCall, str] | None = None
    for record in facts.records:
        stored = calls_of(read_metadata(layout.ledger(record.name)))
        if common is None:
            common = stored
        else:
            common = {call: kind for call, kind in common.items() if call in stored}
    return common or {}


def sampled_rows(
    facts: RunFacts, most: int = MOST_ROWS
) -> Iterator[tuple[ShardRecord, SampleTable]]:
    """Yield the samples of each shard: all of them, or some that a fixed seed draws.

    ``most`` limits the samples of all shards together. Raises LedgerError.
    """
    layout = Layout(facts.folder)
    total = facts.total("samples")
    # Numbers of samples in the run, in order; None for all.
    drawn = None
    if total > most:
        drawn = np.sort(np.random.default_rng(SEED).choice(total, most, replace=False))
    first = 0
    for record in facts.records:
        numbers_in_shard: list[int] | None = None
        if drawn is not None:
            low, high = np.searchsorted(drawn, (first, first + record.samples))
            numbers_in_shard = (drawn[low:high] - first).tolist()
        first += record.samples
        samples, _ = read_ledger(layout.ledger(record.name), numbers_in_shard)
        yield record, samples
