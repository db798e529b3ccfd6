"""``wdsflow cut``: filter again using existing scores."""

from pathlib import Path
from typing import Annotated

from wdsflow.cli.shared.command_line import But, Given, Only
from wdsflow.cli.shared.nearest_paths import nearest_ledger
from wdsflow.cli.shared.run_arguments import Exports, InAndOut, Ledger, NoLedger, need_predicate
from wdsflow.cli.shared.run_display import displayed
from wdsflow.cli.shared.run_outcome import check_exports, exported, show
from wdsflow.cli.shared.terminal import shown_as
from wdsflow.cli.shared.typed import Typed
from wdsflow.filtering.recipe.recipe import RESIZING, Recipe
from wdsflow.filtering.run_options import RunOptions

_OF_RECIPE = Only("where", "keep", "near", "unknown", "empty", *RESIZING)


def cut(
    typed: Typed,
    places: InAndOut,
    scores: Ledger,
    flags: Annotated[Given[Recipe], _OF_RECIPE],
    lists: Exports,
    options: Annotated[RunOptions, But("device", "gpu_memory")],
) -> None:
    """Filter again using existing scores.

    Decodes nothing; copies bytes:

    wdsflow cut "in/{000..042}.tar" -o out --ledger scored --where "blur > 100"

    Exit status: 0 if all shards are done; 1 if a shard could not be read, nothing was kept, or half or more was
    quarantined; 2 if the command is wrong, or nothing could be read or written.
    """
    from wdsflow.filtering.recipe.recipe import canonical_recipe
    from wdsflow.filtering.recipe.recipe_file import merged
    from wdsflow.filtering.run_filter import cut_shards, run_folder

    shards, out = places.named("" if options.dry_run else "cut")
    check_exports(lists.export, options.count)
    recipe = merged(None, flags)
    if scores.ledger is None:
        canonical_recipe(recipe)  # an invalid predicate is reported first
        raise NoLedger(nearest_ledger(Path() if isinstance(out, str) else out.absolute()))
    need_predicate(recipe)
    with run_folder(out, options) as folder, shown_as(folder, out):
        with displayed(options, typed) as shown:
            report = cut_shards(shards, folder, scores.ledger, recipe, shown)
        exported(report, folder, lists.export)
        show(report, folder, typed)
