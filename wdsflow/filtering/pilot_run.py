"""Measure a predicate on a few samples: the cost of each score, and how many samples pass each term."""

import glob
import os
import time
from collections.abc import Iterable
from pathlib import Path

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.decider import decider_of
from wdsflow.filtering.deciding.plan import FilterPlan, plan_of
from wdsflow.filtering.deciding.score_values import guarded, plain_method
from wdsflow.filtering.deciding.stored_scores import as_scored, stored_scores
from wdsflow.filtering.ledger.ledger import read_ledger, score_columns
from wdsflow.filtering.ledger.ledger_metadata import OtherShard
from wdsflow.filtering.ledger.sample_table import Row, SampleTable
from wdsflow.filtering.recipe.recipe import Recipe, canonical_recipe
from wdsflow.memory.sizes import parse_size
from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.scratch import scratch
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import output_names
from wdsflow.shards.source.base import local_folder
from wdsflow.shards.source.opening import seekable
from wdsflow.shards.urls import expand
from wdsflow.stages.scores.base import DatasetScore
from wdsflow.stages.scores.sample_view import ViewOptions

from .check_inputs import with_captions
from .explained_plan import Pilot, explain, pilot_of, sql_of
from .run_folder import Layout
from .samples import RejectedSample, Views
from .shard.same_sample import same_sample

SAMPLES, SHARDS = 500, 4


def measured(
    urls: str | Iterable[str],
    recipe: Recipe,
    *,
    allow_pipe: bool = False,
    scored: Layout | None = None,
) -> Pilot:
    """Take every score of a predicate for 500 samples of a few shards: from ledgers, otherwise by computing it.

    A score that compares all samples needs all of them: here only its cost is measured, and all
    samples pass. Scores by models are left out unless the ledgers have them. Decoding shared by
    several scores counts for the first. ``recipe``: with ledgers, as ``as_scored`` returns it.
    Raises ValueError without a predicate.
    """
    found = expand(urls, allow_pipe=allow_pipe).urls
    recipe = canonical_recipe(recipe)
    if scored is None:
        recipe, _ = with_captions(found, recipe, allow_pipe=allow_pipe)
    plan = plan_of(recipe)
    if plan.expression is None:
        raise ValueError('no predicate to explain: give --where "..."')
    names = dict(zip(found, output_names(found), strict=True))
    chosen = found[:: max(1, len(found) // SHARDS)][:SHARDS]
    stored = frozenset[ScoreCall]() if scored is None else stored_scores(recipe, scored)
    by_model = plan.model_calls - stored
    seconds = dict.fromkeys((call for call in plan.expression.scores if call not in by_model), 0.0)
    samples = SampleTable()
    for url in chosen:
        known = None if scored is None else scored.ledger(names[url])
        _add(
            samples,
            url,
            plan,
            seconds,
            -(-SAMPLES // len(chosen)),
            known,
            stored,
            allow_pipe=allow_pipe,
        )
    count = max(len(samples.rows), 1)
    costs = {call: cost / count for call, cost in seconds.items()}
    return pilot_of(plan.expression, samples, costs, by_model, stored)


def explain_plan(
    urls: str | Iterable[str],
    recipe: Recipe,
    *,
    out: str = "kept",
    allow_pipe: bool = False,
    ledger: str | os.PathLike[str] | None = None,
) -> str:
    """Return the plan of a run into ``out``, with measured costs.

    ``ledger``: the folder whose scores the run takes. Raises LedgerError if it has none; ValueError
    without a predicate.
    """
    recipe = canonical_recipe(recipe)
    scored = None if ledger is None else Layout(local_folder(ledger))
    if scored is not None:
        recipe = as_scored(recipe, scored)
    pilot = measured(urls, recipe, allow_pipe=allow_pipe, scored=scored)
    plan = plan_of(recipe)
    decider = decider_of(plan)
    assert decider is not None
    query = sql_of(
        decider.expression,
        f"{glob.escape(out)}/.wdsflow/ledger/*.parquet",
        score_columns(plan.kinds, map(str, plan.gathered_calls)),
        unknown_keeps=recipe.unknown == "keep",
        several=pilot.several,
    )
    return f"{explain(decider, pilot)}\nthe keys of the kept samples, by the ledgers of a run, in any DuckDB:\n{query}"


def _add(
    table: SampleTable,
    url: Shard,
    plan: FilterPlan,
    seconds: dict[ScoreCall, float],
    most: int,
    ledger: Path | None,
    stored: frozenset[ScoreCall],
    *,
    allow_pipe: bool,
) -> None:
    """Take the scores of the first samples of a shard, at most ``most``, from its ledger, and compute the others."""
    known = SampleTable() if ledger is None else read_ledger(ledger)[0]
    recipe = plan.recipe
    options = ViewOptions(
        images=recipe.image, captions=recipe.caption, budget=parse_size(recipe.image_memory)
    )
    order = [call for step in plan.steps for call in step.scores if call in seconds]
    with scratch("run") as folder, seekable(url, folder, allow_pipe=allow_pipe) as (source, _):
        samples = Samples(source, contents=True)
        views = Views(samples, options, url, recipe.stages)
        for sample in samples:
            if sample.trouble:
                continue
            try:
                view = views.view(sample)
            except RejectedSample:
                continue
            row = Row(len(table.rows), sample.key, sample.start, sample.end)
            if ledger is not None and not _has(known, sample):
                raise OtherShard(ledger, url)
            for call in order:
                score = plan.scores[call]
                if call in stored and isinstance(score, DatasetScore):
                    continue
                if call in stored and sample.number in known.columns[call]:
                    table.columns[call][row.number] = known.columns[call][sample.number]
                    continue
                begun = time.perf_counter()
                if call in plan.ranks:
                    for ranked in plan.ranks[call].calls:
                        if ranked in stored and sample.number in known.columns[ranked]:
                            continue
                        guarded(plain_method(plan.scores[ranked], plan.scores[ranked].score), view)
                elif isinstance(score, DatasetScore):
                    guarded(score.gather, view)
                else:
                    table.columns[call][row.number] = guarded(
                        plain_method(score, score.score), view
                    )
                seconds[call] += time.perf_counter() - begun
            table.rows.append(row)
            most -= 1
            if most <= 0:
                return


def _has(known: SampleTable, sample: TarSample) -> bool:
    """Return whether a ledger has a sample."""
    return sample.number < len(known.rows) and same_sample(known.rows[sample.number], sample)
