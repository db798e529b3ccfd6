"""Measure a predicate on a few samples: the cost of each score, and how many samples pass each term."""

import time
from collections.abc import Iterable

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.program import Program, guarded, in_plain, program_of
from wdsflow.filtering.ledger.ledger_row import Row, SampleTable
from wdsflow.filtering.recipe.recipe import Recipe, canonical_recipe
from wdsflow.memory.sizes import parse_size
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.scratch import scratch
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.opening import seekable
from wdsflow.shards.urls import expand
from wdsflow.stages.scores.base import DatasetScore
from wdsflow.stages.scores.sample_view import ViewOptions

from .explained_plan import Pilot, explain, pilot_of, sql_of
from .json_place import with_captions
from .samples import Gone, Views

SAMPLES, SHARDS = 500, 4


def measured(urls: str | Iterable[str], recipe: Recipe, *, allow_pipe: bool = False) -> Pilot:
    """Compute every score of a predicate for 500 samples of a few shards.

    A score that compares all samples needs all of them: here only its cost is measured, and all samples pass.
    Scores by models are left out. Decoding shared by several scores counts for the first. Raises ValueError without a predicate.
    """
    found = expand(urls, allow_pipe=allow_pipe).urls
    recipe, _ = with_captions(found, canonical_recipe(recipe), allow_pipe=allow_pipe)
    program = program_of(recipe)
    if program.expression is None:
        raise ValueError('no predicate to explain: give --where "..."')
    chosen = found[:: max(1, len(found) // SHARDS)][:SHARDS]
    by_model = program.model_calls
    seconds = dict.fromkeys((call for call in program.expression.scores if call not in by_model), 0.0)
    samples = SampleTable()
    for url in chosen:
        _add(samples, url, program, seconds, -(-SAMPLES // len(chosen)), allow_pipe=allow_pipe)
    count = max(len(samples.rows), 1)
    costs = {call: cost / count for call, cost in seconds.items()}
    return pilot_of(program.expression, samples, costs, by_model)


def explain_plan(urls: str | Iterable[str], recipe: Recipe, *, out: str = "kept", allow_pipe: bool = False) -> str:
    """Return the plan of a run into ``out``, with measured costs. Raises ValueError without a predicate."""
    recipe = canonical_recipe(recipe)
    pilot = measured(urls, recipe, allow_pipe=allow_pipe)
    program = program_of(recipe)
    assert program.decider is not None
    query = sql_of(
        program.decider.expression,
        f"{out}/.wdsflow/ledger/*.parquet",
        unknown_keeps=recipe.unknown == "keep",
        several=pilot.several,
    )
    return f"{explain(program.decider, pilot)}\nthe keys of the kept samples, by the ledgers of a run, in any DuckDB:\n{query}"


def _add(
    table: SampleTable, url: Shard, program: Program, seconds: dict[ScoreCall, float], most: int, *, allow_pipe: bool
) -> None:
    """Compute the scores of the first samples of a shard, at most ``most``."""
    recipe = program.recipe
    options = ViewOptions(images=recipe.image, captions=recipe.caption, budget=parse_size(recipe.image_memory))
    assert program.decider is not None
    order = [call for step in program.decider.steps for call in step.scores if call in seconds]
    with scratch("run") as folder, seekable(url, folder, allow_pipe=allow_pipe) as (source, _):
        samples = Samples(source, contents=True)
        views = Views(samples, options, url, recipe.stages)
        for sample in samples:
            if sample.trouble:
                continue
            try:
                view = views.view(sample)
            except Gone:
                continue
            row = Row(len(table.rows), sample.key, sample.start, sample.end)
            for call in order:
                score = program.scores[call]
                begun = time.perf_counter()
                if call in program.ranks:
                    for each in program.ranks[call].calls:
                        guarded(in_plain(program.scores[each], program.scores[each].score), view)
                elif isinstance(score, DatasetScore):
                    guarded(score.gather, view)
                else:
                    table.columns[call][row.number] = guarded(in_plain(score, score.score), view)
                seconds[call] += time.perf_counter() - begun
            table.rows.append(row)
            most -= 1
            if most <= 0:
                return
