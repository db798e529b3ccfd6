"""Which samples a recipe keeps, by the scores in ledgers: what ``cut`` writes, without writing it."""

import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from wdsflow.filtering.deciding.compare_samples import add_resolved, resolve
from wdsflow.filtering.deciding.ledger_subset import check_scores, decide
from wdsflow.filtering.deciding.program import program_of
from wdsflow.filtering.folder.layout import Layout
from wdsflow.filtering.folder.outcome_counts import count
from wdsflow.filtering.folder.shard_record import ShardRecord
from wdsflow.filtering.jsonl.jsonl_names import is_lines, names_of
from wdsflow.filtering.ledger.ledger_metadata import LedgerError, read_about, same_shard
from wdsflow.filtering.ledger.ledger_row import Row
from wdsflow.filtering.ledger.scores_from_ledger import read_scored
from wdsflow.filtering.recipe.canonical_recipe import canonical_recipe
from wdsflow.filtering.recipe.recipe import Recipe, recorded_recipe
from wdsflow.filtering.recipe.recipe_stages import read_stages
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source.base import local_folder

_OF_LINES = ("image_token", "video_token", "chunk_end", "media_root")


class LedgerChoice:
    """Decides shard by shard which samples a recipe keeps, by the ledgers of ``score`` or ``filter``.

    Args:
        urls: the shards, tars all of them.
        ledger: the folder that ``score`` or ``filter`` wrote.
        recipe: which samples are kept.
        folder: an empty folder, for the values of scores that compare all samples.

    Raises:
        LedgerError: ``ledger`` has no ledgers, a score of the predicate was not computed (MissingScore), or the predicate
            compares samples and the ledger of a shard is missing or of another shard.
        ValueError: the recipe is invalid, or a shard is a file of JSON lines.
    """

    def __init__(self, urls: Sequence[str], ledger: str | os.PathLike[str], recipe: Recipe, folder: Path) -> None:
        recipe = canonical_recipe(recipe)
        if (lines := next(filter(is_lines, urls), None)) is not None:
            raise ValueError(f"{lines} is a file of JSON lines, not a tar")
        self._urls, self._names = list(urls), names_of(urls)
        self._scored, self._own = Layout(local_folder(ledger)), Layout(folder)
        self.recipe = with_stages(recipe, self._scored)
        self._program = program_of(self.recipe)
        check_scores(self._program, self._scored, self._names)
        self._lock = threading.Lock()
        if self._program.dataset_calls:
            self._compare()

    def decide(self, number: int) -> tuple[list[Row], ShardRecord]:
        """Return the kept samples of a shard in the order of its tar, and what became of all its samples.

        Raises LedgerError if its ledger is missing, lacks a value, or was made from another shard or before the shard
        changed; SourceError, OSError if the shard cannot be read.
        """
        url, name = self._urls[number], self._names[number]
        record = ShardRecord(number, url, name, "", input_identity(url))
        rows = read_scored(self._scored, name, record)
        with self._lock:
            if self._program.dataset_calls:
                add_resolved(self._program, rows, self._own, name)
            decide(self._program, rows)
        count(rows, record, self._program)
        record.check()
        return [row for row in rows if row.outcome == "kept"], record

    def _compare(self) -> None:
        """Compare the samples of all shards."""
        for number, name in enumerate(self._names):
            path = self._scored.ledger(name)
            record = ShardRecord(number, self._urls[number], name, "", input_identity(self._urls[number]))
            same_shard(read_about(path), record, path)
        for folder in self._own.folders():
            folder.mkdir(parents=True, exist_ok=True)
        resolve(self._program, list(enumerate(self._names)), self._scored, self._own)


def with_stages(recipe: Recipe, scored: Layout) -> Recipe:
    """Return the recipe with the stages, and the settings for JSON lines, of the scores. Raises LedgerError."""
    if not scored.inside.is_dir():
        raise LedgerError(f"{scored.folder} has no ledgers: give the folder that filter or score wrote")
    found_recipe = recorded_recipe(scored.run_file)
    if not found_recipe:
        raise LedgerError(f"{scored.run_file} does not record how {scored.folder} was scored: score again")
    stages = read_stages(found_recipe.get("stages", []))
    if recipe.stages and recipe.stages != stages:
        raise LedgerError(f"{scored.folder} was scored with other stages than those of the recipe")
    given = {name: found_recipe[name] for name in _OF_LINES if isinstance(found_recipe.get(name), str)}
    return replace(recipe, stages=stages, **given)
