"""``wdsflow measure``: compute scores, and write ledgers but no tars."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from wdsflow.cli.runs.display import showing_progress
from wdsflow.cli.runs.exports import check_exports, write_exports
from wdsflow.cli.runs.summary import show
from wdsflow.cli.shared.advice_on_tables import refuse_empty_join, refuse_missing_join
from wdsflow.cli.shared.command_line import But, GivenFields
from wdsflow.cli.shared.output_url import shown_as
from wdsflow.cli.shared.run_arguments import (
    OF_JOIN,
    Embeddings,
    Exports,
    RecipeFile,
    ShardsAndOutput,
    missing_scores,
)
from wdsflow.cli.shared.typed import Typed
from wdsflow.filtering.recipe.recipe import RESIZING, Recipe
from wdsflow.filtering.run_options import RunOptions
from wdsflow.joining.join_options import JoinOptions
from wdsflow.records.run_folder import recorded_run

_OF_RECIPE = But(
    *("where", "keep", "near", "unknown", "empty", *RESIZING),
    scores="Scores to compute, separated by commas: min_side,caption_words.",
)


def measure(
    typed: Typed,
    paths: ShardsAndOutput,
    flags: Annotated[GivenFields[Recipe], _OF_RECIPE],
    file: RecipeFile,
    embeddings: Embeddings,
    lists: Exports,
    join: Annotated[JoinOptions, OF_JOIN],
    options: Annotated[RunOptions, But("dry_run", "quarantine")],
) -> None:
    """Compute scores of all samples.

    Writes them to OUT/.wdsflow/ledger, one Parquet file per shard:

    wdsflow measure "in/{000..042}.tar" -o scored --scores min_side,caption_words,blur

    Then choose thresholds, and filter by them as often as you like: wdsflow filter --ledger. The
    same command with other scores adds them to the ledgers; what is there is not computed again.
    The predicate of a recipe is ignored.

    Exit status: 0 if all shards are done; 1 if a shard could not be read, or a score has no value
    for half or more of the samples; 2 if the command is wrong, or nothing could be read or written.
    """
    from wdsflow.filtering.recipe.recipe_file import merged_recipe
    from wdsflow.filtering.run_filter import measure_shards
    from wdsflow.filtering.run_output import run_folder

    refuse_empty_join(join, typed)
    refuse_missing_join(file.recipe, typed)
    # An output folder may have ledgers with scores already.
    shards, out = paths.require_paths(
        "scored", *(missing_scores(merged_recipe(file.recipe, flags)) if paths.out is None else ())
    )
    check_exports(lists.export, options.count, tars=False)
    with run_folder(out, options) as folder, shown_as(folder, out):
        recipe = _recipe(
            file.recipe or (None if options.restart else _earlier_recipe(folder)), flags
        )
        with showing_progress(options, typed) as shown:
            report = measure_shards(
                shards,
                folder,
                recipe,
                shown,
                embeddings_from=embeddings.embeddings_from,
                join=join,
            )
        write_exports(report, folder, lists.export)
        show(report, folder, typed)


def _earlier_recipe(folder: Path) -> Path | None:
    """Return the recipe of the ledgers in a folder; its settings apply to added scores."""
    from wdsflow.records.run_folder import Layout

    run_file = Layout(folder).run_file
    return run_file if recorded_run(run_file).get("kind") == "measure" else None


def _recipe(file: Path | None, flags: Mapping[str, object]) -> Recipe:
    """Return the recipe. Raises ValueError."""
    from wdsflow.filtering.recipe.recipe_file import merged_recipe

    recipe = replace(merged_recipe(file, flags), where="", keep=(), near=())
    if gap := next(missing_scores(recipe), None):
        raise gap
    return recipe
