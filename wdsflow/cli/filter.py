"""``wdsflow filter``: keep the samples that match a predicate."""

from dataclasses import dataclass
from typing import Annotated

from wdsflow.cli.runs.display import showing_progress
from wdsflow.cli.runs.exports import check_exports, write_exports
from wdsflow.cli.runs.summary import show
from wdsflow.cli.shared.advice_on_tables import refuse_empty_join, refuse_missing_join
from wdsflow.cli.shared.command_line import GivenFields
from wdsflow.cli.shared.output_url import shown_as
from wdsflow.cli.shared.printing import print_lines
from wdsflow.cli.shared.run_arguments import (
    OF_JOIN,
    Embeddings,
    Exports,
    Ledger,
    RecipeFile,
    ShardsAndOutput,
    missing_predicate,
)
from wdsflow.cli.shared.typed import Typed
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.run_options import RunOptions
from wdsflow.joining.join_options import JoinOptions
from wdsflow.text.options import OTHER, option


@dataclass(frozen=True)
class PrintOnly:
    """Texts to print instead of a run."""

    explain: bool = option(False, "Print the plan, with costs measured on some samples, and exit.")
    print_recipe: bool = option(
        False,
        "Print the recipe for these flags, and exit. A table of --join is no part of it: a comment has its options.",
        panel=OTHER,
    )
    print_schema: bool = option(False, "Print the JSON Schema of recipes, and exit.", panel=OTHER)


def filter(  # noqa: A001 - the name of the command
    typed: Typed,
    paths: ShardsAndOutput,
    flags: GivenFields[Recipe],
    file: RecipeFile,
    scores: Ledger,
    embeddings: Embeddings,
    lists: Exports,
    join: Annotated[JoinOptions, OF_JOIN],
    options: RunOptions,
    printing: PrintOnly,
) -> None:
    """Keep the samples that match a predicate.

    The output shards hold these samples, byte for byte:

    wdsflow filter "in/{000..042}.tar" -o out --where "min_side >= 200 and aspect_ratio < 3"

    The same command resumes an interrupted run. OUT/.wdsflow/ledger holds the scores of all
    samples. With --ledger, scores of an earlier run are used, and only samples that need another
    score are read:

    wdsflow filter "in/{000..042}.tar" -o out --ledger scored --where "blur > 100"

    With --join, samples get fields of a table before they are scored, as by wdsflow graft.

    Exit status: 0 if all shards are done; 1 if a shard could not be read, nothing was kept, or half
    or more was quarantined; 2 if the command is wrong, or nothing could be read or written.
    """
    from wdsflow.filtering.recipe.recipe_file import merged_recipe
    from wdsflow.filtering.run_filter import filter_shards
    from wdsflow.filtering.run_output import run_folder

    refuse_empty_join(join, typed)
    refuse_missing_join(file.recipe, typed)
    recipe = merged_recipe(file.recipe, flags)
    if printing.print_schema or printing.print_recipe or printing.explain:
        _print(printing, paths, recipe, scores, join, allow_pipe=options.allow_pipe)
        if printing.explain:
            _print_models(typed, recipe, scores, options)
        return
    shards, out = paths.require_paths("" if options.dry_run else "kept", *missing_predicate(recipe))
    check_exports(lists.export, options.count)
    with run_folder(out, options) as folder, shown_as(folder, out):
        with showing_progress(options, typed) as shown:
            report = filter_shards(
                shards,
                folder,
                recipe,
                shown,
                ledger=scores.ledger,
                embeddings_from=embeddings.embeddings_from,
                join=join,
            )
        write_exports(report, folder, lists.export)
        show(report, folder, typed)


def _print_models(typed: Typed, recipe: Recipe, scores: Ledger, options: RunOptions) -> None:
    """Print what scores by models cost, which the plan does not measure."""
    from wdsflow.cli.shared.explained_models import model_lines

    print_lines(*model_lines(typed, recipe, options, scores.ledger))


def _print(
    printing: PrintOnly,
    paths: ShardsAndOutput,
    recipe: Recipe,
    scores: Ledger,
    join: JoinOptions,
    *,
    allow_pipe: bool,
) -> None:
    """Print the schema of recipes, the plan of a recipe, or the recipe itself."""
    if printing.print_schema:
        from wdsflow.filtering.recipe.recipe_file import recipe_schema

        print(recipe_schema(), end="")
        return
    if printing.explain:
        from wdsflow.filtering.pilot_run import explain_plan

        shards, out = paths.require_paths()
        print(
            explain_plan(
                shards,
                recipe,
                out=str(out or "kept"),
                allow_pipe=allow_pipe,
                ledger=scores.ledger,
                join=join,
            )
        )
        return
    from wdsflow.filtering.recipe.recipe_file import recipe_yaml
    from wdsflow.joining.recorded_join import join_flags

    print(recipe_yaml(recipe, join_flags(join.changed_join()).strip()), end="")
