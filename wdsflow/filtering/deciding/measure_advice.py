"""The commands that compute missing scores of a predicate, for messages."""

import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from wdsflow.filtering.ledger.ledger_metadata import LedgerError
from wdsflow.filtering.recipe.recipe import Recipe, canonical_recipe
from wdsflow.joining.recorded_join import join_flags, recorded_join
from wdsflow.records.run_folder import Layout, recorded_run, records_in_order
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import canonical_name
from wdsflow.shards.urls import expand
from wdsflow.shards.written_names import compact_patterns
from wdsflow.text.shell import quote, quote_path

from .plan import plan_of
from .stored_scores import missing_calls, stored_columns, with_ledger_options


def measure_command(
    urls: Sequence[str], folder: str | os.PathLike[str], where: str
) -> tuple[str, Path]:
    """Return the command that computes a predicate's scores, and the folder that it writes.

    The command computes them in the same way as the run in ``folder``.

    Raises ValueError if the predicate is invalid.
    """
    folder = Path(folder)
    recipe = canonical_recipe(Recipe(where=where))
    run_file: Path | None = None
    addition = scores_to_add(urls, folder, recipe)
    if addition is not None:
        urls, scores = addition
        out = folder
    else:
        scores = needed_scores(recipe)
        out = _unused(folder)
        run_file = Layout(folder).run_file
    words = ["wdsflow measure", *map(quote_path, compact_patterns(list(urls)))]
    words += ["-o", quote_path(str(out)), "--scores", quote(scores)]
    if run_file is not None and run_file.is_file():
        words += ["--recipe", quote_path(str(run_file))]
    return " ".join(words) + join_flags(recorded_join(folder)), out


def needed_scores(recipe: Recipe) -> str:
    """Return the scores that a predicate needs, for --scores."""
    plan = plan_of(recipe)
    return ",".join(str(call) for call in plan.scores if call not in plan.ranks)


def scores_to_add(
    urls: Sequence[str], folder: Path, recipe: Recipe
) -> tuple[list[str], str] | None:
    """Return the shards of a ``measure`` run, and the scores that its ledgers lack.

    The scores are those of a predicate.

    None if no command can add scores to these ledgers: they are of a filter, or of other shards.
    """
    layout = Layout(folder)
    run = recorded_run(layout.run_file)
    recorded = run.get("urls")
    if run.get("kind") != "measure" or not isinstance(recorded, list):
        return None
    measured = list(map(Shard.from_text, recorded))
    if any(shard.is_pipe for shard in measured):
        return None
    shards = expand(urls, allow_pipe=True).urls
    if not set(map(canonical_name, shards)) <= set(map(canonical_name, measured)):
        return None
    try:
        plan = plan_of(with_ledger_options(recipe, layout))
    except LedgerError:
        return None
    names = [record.name for record in records_in_order(layout)]
    columns = stored_columns(layout, names) or {}
    missing = ",".join(map(str, missing_calls(plan, columns)))
    scores = missing or needed_scores(plan.recipe)
    return list(urls) if shards == measured else [*measured], scores


def _unused(folder: Path) -> Path:
    """Return a new folder name derived from another folder.

    It is next to that folder if the parent is writable.
    """
    if not folder.name:
        folder = Path("scored")
    parent = folder.parent if os.access(folder.absolute().parent, os.W_OK) else Path()
    for number in count(1):
        name = f"{folder.name}-{number}" if number > 1 else folder.name
        if not os.path.lexists(parent / name):
            return parent / name
    raise AssertionError
