"""Which scores ``measure`` computes in a folder that has ledgers.

Scores that all ledgers have stay part of the run: others are added to them. While ledgers are
missing, those that exist keep what they have, and only the scores of the command are computed for
the other shards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from wdsflow.records.run_folder import Layout
from wdsflow.stages.scores.base import DatasetScore
from wdsflow.text.words import how_many

from .deciding.plan import plan_of
from .extendable_ledgers import scores_of
from .ledger.ledger_metadata import read_metadata
from .recipe.recipe import Recipe
from .run_record import RunRecord


def with_scores_of_ledgers(
    recipe: Recipe, layout: Layout, *, is_alone: bool = True
) -> tuple[Recipe, str]:
    """Return the recipe with the scores that a run computes or keeps for all shards.

    Also returns a line about them, or "".

    Args:
        recipe: that of the command, in its canonical form.
        layout: the folder.
        is_alone: no other slice of the run computes scores for other shards of the folder.

    Raises LedgerError if a ledger cannot be read.
    """
    record = RunRecord(layout, "measure")
    record.read()
    earlier = record.options or {}
    if earlier.get("kind") != "measure":
        return recipe, ""
    recorded = scores_of(earlier)
    if set(recorded) == set(recipe.scores):
        return replace(recipe, scores=recorded), ""
    ledgers = _scores_of_ledgers(record)
    if not ledgers:
        return recipe, ""
    names = earlier.get("names")
    shards = len(names) if isinstance(names, list) else 0
    is_finished = sum(name in record.lines for name in ledgers) == shards
    stored = [score for score in recorded if any(score in scores for scores in ledgers.values())]
    complete: list[str] = []
    if is_finished:
        complete = [
            score for score in stored if all(score in scores for scores in ledgers.values())
        ]
    # Scores that the run would have to compute for some shards, although the command does not name
    # them.
    partial = [score for score in stored if score not in (*complete, *recipe.scores)]
    kept = stored
    if partial and is_alone and not _compares_samples(recipe, partial):
        kept = [score for score in stored if score not in partial]
        line = _line_on_partial(layout, ledgers, shards, partial)
        missing = [score for score in recipe.scores if score not in complete]
        if missing:
            line += f"; computing {', '.join(missing)}"
    else:
        line = _line_on_added(layout, stored, recipe)
    # The order of the ledgers comes first: their columns keep their positions.
    scores = tuple(dict.fromkeys([*kept, *recipe.scores]))
    return replace(recipe, scores=scores), line


def _line_on_added(layout: Layout, stored: Sequence[str], recipe: Recipe) -> str:
    """Return a line on the scores that are added to those of the ledgers; "" if there are none."""
    added = [score for score in recipe.scores if score not in stored]
    if not added:
        return ""
    return f"{layout.folder} has {', '.join(stored)}: adding {', '.join(added)}"


def _line_on_partial(
    layout: Layout, ledgers: Mapping[str, Sequence[str]], shards: int, partial: Sequence[str]
) -> str:
    """Return a line on the scores that only some ledgers have.

    They are not computed for other shards.
    """
    count = sum(not set(partial).isdisjoint(scores) for scores in ledgers.values())
    have, keep = ("has", "keeps") if count == 1 else ("have", "keep")
    them = "it" if len(partial) == 1 else "them"
    shards_with_scores = f"{count:,} of {how_many(shards, 'shard')}"
    return f"{layout.folder}: {shards_with_scores} {have} {', '.join(partial)}, and {keep} {them}"


def _scores_of_ledgers(record: RunRecord) -> Mapping[str, tuple[str, ...]]:
    """Return the scores of the ledger of each shard.

    Ledgers that are not compared with others yet are included.
    """
    scored = RunRecord(record.layout.scored, "measure")
    scored.read()
    scores: dict[str, tuple[str, ...]] = {}
    for run in (scored, record):
        for name in run.lines:
            path = run.layout.ledger(name)
            if path.is_file():
                scores[name] = scores_of(read_metadata(path))
    return scores


def _compares_samples(recipe: Recipe, extra: Sequence[str]) -> bool:
    """Return whether a score compares samples: then all ledgers need the same scores."""
    plan = plan_of(replace(recipe, scores=(*recipe.scores, *extra)))
    return any(isinstance(score, DatasetScore) for score in plan.scores.values())
