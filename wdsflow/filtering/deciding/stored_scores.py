"""Which scores of a recipe the ledgers of a folder have.

Also the recipe by which they were computed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.ledger.ledger_metadata import (
    LedgerError,
    MissingScore,
    SettledByLedger,
    calls_of,
    no_ledgers,
    read_metadata,
)
from wdsflow.filtering.predicates.gathered_data import gathers_same_data
from wdsflow.filtering.predicates.ledger_columns import with_columns
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.recipe.recipe_stages import read_stages
from wdsflow.records.run_folder import Layout, recorded_recipe, recorded_run, records_in_order
from wdsflow.text.shell import quote

from .plan import FilterPlan, plan_of

# The options on which the values of scores depend.
_OF_SCORES = ("image", "caption", "image_memory", "precision")


def with_ledger_options(recipe: Recipe, scored: Layout) -> Recipe:
    """Return the recipe with the stages, fields and precision of the scores, and their full names.

    Raises LedgerError; ExpressionError if the name of a score matches several columns.
    """
    if not scored.has_ledgers:
        raise no_ledgers(scored.folder)
    recorded = recorded_recipe(scored.run_file)
    if not recorded:
        raise LedgerError(
            f"{scored.run_file} does not record how {scored.folder} was measured: measure again"
        )
    stages = read_stages(recorded.get("stages", []))
    if recipe.stages and recipe.stages != stages:
        raise LedgerError(
            f"{scored.folder} was measured with other stages than those of the recipe"
        )
    options: dict[str, str] = {}
    for name in _OF_SCORES:
        if isinstance(recorded.get(name), str):
            options[name] = recorded[name]
    _refuse_other_options(recipe, options, scored)
    names = [record.name for record in records_in_order(scored)]
    columns = stored_columns(scored, names) or {}
    where = with_columns(recipe.where, columns)
    return replace(recipe, stages=stages, where=where, **options)  # type: ignore[arg-type]


def _refuse_other_options(recipe: Recipe, options: Mapping[str, str], scored: Layout) -> None:
    """Raise SettledByLedger if a recipe sets an option on which scores depend to another value."""
    for name, value in options.items():
        requested = getattr(recipe, name)
        if requested not in {value, getattr(Recipe, name), "auto"}:
            option = f"--{name.replace('_', '-')}"
            raise SettledByLedger(
                f"{scored.folder} was measured with {option} {quote(value)}: leave out {option} {quote(requested)}",
                name,
            )


def check_scores(plan: FilterPlan, scored: Layout, names: Sequence[str]) -> None:
    """Raise MissingScore if the first ledger has no column for a score of the predicate."""
    for call in missing_columns(plan, scored, names):
        raise MissingScore(
            str(call), f"{scored.folder} has no {call}, which was not computed there"
        )


def missing_columns(plan: FilterPlan, scored: Layout, names: Sequence[str]) -> list[ScoreCall]:
    """Return the scores of a recipe for which the first ledger has no column.

    Empty without a ledger.
    """
    columns = stored_columns(scored, names)
    return [] if columns is None else missing_calls(plan, columns)


def missing_calls(plan: FilterPlan, columns: Collection[ScoreCall]) -> list[ScoreCall]:
    """Return the scores of a recipe that have no column, and no data to compare samples."""
    missing = []
    for call in plan.scores:
        if call in columns or call in plan.ranks:
            continue
        if not any(gathers_same_data(call, other) for other in columns):
            missing.append(call)
    return missing


def stored_columns(scored: Layout, names: Iterable[str]) -> dict[ScoreCall, str] | None:
    """Return the scores of the first ledger with their kinds, None if there is none."""
    ledgers = map(scored.ledger, names)
    first = next((path for path in ledgers if path.is_file()), None)
    if first is None:
        return None
    columns = calls_of(read_metadata(first))
    run = recorded_run(scored.run_file)
    computed = run.get("scores")
    if run.get("kind") != "measure" or not isinstance(computed, dict):
        return columns
    # This ledger may have more scores than the others, of an earlier run that did not finish.
    return {call: kind for call, kind in columns.items() if str(call) in computed}


def is_complete(scored: Layout, recipe: Recipe) -> bool:
    """Return whether ledgers have the scores of a recipe for all samples.

    Those of ``measure`` do.
    """
    if recorded_run(scored.run_file).get("kind") == "measure":
        return True
    requested = recorded_recipe(scored.run_file).get("scores", [])
    if not isinstance(requested, list):
        requested = []
    return all(str(call) in requested for call in plan_of(recipe).scores)


def stored_scores(recipe: Recipe, scored: Layout) -> frozenset[ScoreCall]:
    """Return the scores that a run takes from ledgers.

    ``recipe`` is what ``with_ledger_options`` returned.
    """
    plan = plan_of(recipe)
    names = [record.name for record in records_in_order(scored)]
    computed = {*missing_columns(plan, scored, names), *plan.ranks}
    if not is_complete(scored, recipe):
        # A filter ran its models only for samples that needed them.
        computed |= plan.model_calls
    return frozenset(call for call in plan.scores if call not in computed)
