"""Lines of ``filter --explain`` on the scores by models, which it does not compute."""

from collections.abc import Iterator
from pathlib import Path

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.stored_scores import stored_scores, with_ledger_options
from wdsflow.filtering.model_precision import with_precision
from wdsflow.filtering.recipe.recipe import Recipe, canonical_recipe
from wdsflow.filtering.run_options import RunOptions
from wdsflow.filtering.score_costs import ScoreCost, score_costs
from wdsflow.records.run_folder import Layout
from wdsflow.records.working_folder import remote_url
from wdsflow.shards.source.base import local_folder
from wdsflow.shards.urls import expand
from wdsflow.shards.written_names import pattern_of_shard
from wdsflow.text.words import duration, how_many

from .typed import Typed, unused_path


def model_lines(
    typed: Typed, recipe: Recipe, options: RunOptions, ledger: Path | None
) -> Iterator[str]:
    """Yield the time that each score by models takes for an input.

    It was measured by the runs in the folders of -o and --embeddings-from.

    Of scores that no run there has measured, the commands that measure them. Scores that ``ledger``
    has take nothing.
    """
    given = (typed.given.get(name) for name in ("out", "embeddings_from"))
    folders = [str(folder) for folder in given if folder is not None and remote_url(folder) is None]
    stored = frozenset[ScoreCall]()
    if ledger is not None:
        scored = Layout(local_folder(ledger))
        recipe = with_ledger_options(canonical_recipe(recipe), scored)
        stored = stored_scores(recipe, scored)
    costs = score_costs(with_precision(recipe, options).recipe, folders, stored)
    if not costs:
        return
    yield "scores by models:"
    for cost in costs:
        yield from _lines_of(cost)
    unmeasured = [cost.score for cost in costs if not cost.measured]
    if unmeasured:
        yield from _how_to_measure(typed, unmeasured, options)


def _lines_of(cost: ScoreCost) -> Iterator[str]:
    for folder, models in cost.measured:
        parts = [
            f"{model.called} {_short(model.seconds_per_item)} an input ({how_many(model.items, 'input')})"
            for model in models
        ]
        yield f"  {cost.score}: {', '.join(parts)}, on {models[0].where}, measured by the run in {folder}"
    if not cost.measured:
        about = (
            ""
            if cost.catalog_seconds is None
            else f"; with the default model about {cost.catalog_seconds:g} s of a CPU core for a sample"
        )
        yield f"  {cost.score}: not measured{about}"


def _short(seconds: float) -> str:
    return duration(seconds) if seconds >= 0.1 else f"{1000 * seconds:.2g} ms"


def _how_to_measure(typed: Typed, scores: list[str], options: RunOptions) -> Iterator[str]:
    first = next(iter(expand(typed.given["urls"], allow_pipe=options.allow_pipe).urls))
    if first.has_hidden_part:
        return
    trial = unused_path(Path("trial"))
    kept = {
        name: typed.given.get(name)
        for name in ("recipe", "caption", "image", "precision", "device", "image_memory")
    }
    yield "to measure them on one shard:"
    yield f"  {typed.other_command('measure', pattern_of_shard(first), out=trial, scores=','.join(scores), **kept)}"
    yield f"then: {typed.command_with(out=trial)}"
