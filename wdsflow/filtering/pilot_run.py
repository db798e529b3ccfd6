"""Measures a predicate on a few samples.

The results are the cost of each score, and how many samples pass each term.
"""

import glob
import os
import time
from collections.abc import Iterable
from pathlib import Path

from wdsflow.expressions.ledger_sql import ledger_query
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.decider import decider_of
from wdsflow.filtering.deciding.plan import FilterPlan, plan_of
from wdsflow.filtering.deciding.score_values import plain_method, result_or_unknown
from wdsflow.filtering.deciding.stored_scores import stored_scores, with_ledger_options
from wdsflow.filtering.ledger.column_names import score_columns
from wdsflow.filtering.ledger.ledger_metadata import OtherShard
from wdsflow.filtering.ledger.read_ledger import read_ledger
from wdsflow.filtering.ledger.sample_table import LedgerRow, SampleTable
from wdsflow.filtering.predicates.catalog import RankedNumber
from wdsflow.filtering.recipe.recipe import Recipe, canonical_recipe
from wdsflow.joining.join_options import JoinOptions
from wdsflow.memory.sizes import parse_size
from wdsflow.records.run_folder import Layout
from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.scratch import scratch
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import output_names
from wdsflow.shards.source.base import local_folder
from wdsflow.shards.source.opening import seekable
from wdsflow.shards.urls import expand
from wdsflow.stages.scores.base import DatasetScore
from wdsflow.stages.scores.sample_view import ViewOptions

from .explained_plan import explain
from .inputs.check_inputs import with_captions
from .joined_samples import JoinedSamples, open_join, with_fields
from .pilot import Pilot, pilot_of
from .samples.shard_view import ShardView
from .samples.staging import RejectedSample
from .samples.views import Views
from .shard.same_sample import same_sample

# Samples that are measured, of so many shards.
SAMPLES = 500
SHARDS = 4


def measure_pilot(
    urls: str | Iterable[str],
    recipe: Recipe,
    *,
    allow_pipe: bool = False,
    scored: Layout | None = None,
    join: JoinOptions | None = None,
) -> Pilot:
    """Take every score of a predicate for 500 samples of a few shards.

    Scores are taken from ledgers, or computed.

    A score that compares all samples needs all of them: here only its cost is measured, and all
    samples pass. Scores by models are left out unless the ledgers have them. Decoding shared by
    several scores counts for the first. ``recipe``: with ledgers, as ``with_ledger_options``
    returns it. Raises ValueError without a predicate.
    """
    shards = expand(urls, allow_pipe=allow_pipe).urls
    recipe = canonical_recipe(recipe)
    joined = open_join(join or JoinOptions(), shards)
    if scored is None:
        recipe, _ = with_captions(shards, recipe, allow_pipe=allow_pipe, join=joined)
    plan = plan_of(recipe)
    if plan.expression is None:
        raise ValueError('no predicate to explain: give --where "..."')
    names = dict(zip(shards, output_names(shards), strict=True))
    chosen = shards[:: max(1, len(shards) // SHARDS)][:SHARDS]
    stored = frozenset[ScoreCall]() if scored is None else stored_scores(recipe, scored)
    by_model = plan.model_calls - stored
    pilot = _PilotScores(plan, stored, by_model)
    for url in chosen:
        ledger = None if scored is None else scored.ledger(names[url])
        pilot.add(url, ledger, -(-SAMPLES // len(chosen)), joined, allow_pipe=allow_pipe)
    count = max(len(pilot.table.rows), 1)
    costs = {call: seconds / count for call, seconds in pilot.seconds.items()}
    return pilot_of(plan.expression, pilot.table, costs, by_model, stored)


def explain_plan(
    urls: str | Iterable[str],
    recipe: Recipe,
    *,
    out: str = "kept",
    allow_pipe: bool = False,
    ledger: str | os.PathLike[str] | None = None,
    join: JoinOptions | None = None,
) -> str:
    """Return the plan of a run into ``out``, with measured costs.

    ``ledger``: the folder whose scores the run takes. ``join``: the table that it joins. Raises
    LedgerError if the folder has no ledgers, ValueError without a predicate.
    """
    recipe = canonical_recipe(recipe)
    scored = None if ledger is None else Layout(local_folder(ledger))
    if scored is not None:
        recipe = with_ledger_options(recipe, scored)
    pilot = measure_pilot(urls, recipe, allow_pipe=allow_pipe, scored=scored, join=join)
    plan = plan_of(recipe)
    decider = decider_of(plan)
    assert decider is not None
    query = ledger_query(
        decider.expression,
        f"{glob.escape(out)}/.wdsflow/ledger/*.parquet",
        score_columns(plan.kinds, map(str, plan.gathered_calls)),
        pilot.several,
        unknown_keeps=recipe.unknown == "keep",
    )
    return f"{explain(decider, pilot)}\nthe keys of the kept samples, by the ledgers of a run, in any DuckDB:\n{query}"


class _PilotScores:
    """The scores of some samples, and the time that they take.

    Args:
        plan: the plan of a recipe with a predicate.
        stored: scores that are taken from ledgers.
        left_out: scores that are not computed.
    """

    def __init__(
        self, plan: FilterPlan, stored: frozenset[ScoreCall], left_out: frozenset[ScoreCall]
    ) -> None:
        self._plan = plan
        self._stored = stored
        self._calls: list[ScoreCall] = []
        for step in plan.steps:
            self._calls += [call for call in step.scores if call not in left_out]
        self.table = SampleTable()
        self.seconds = dict.fromkeys(self._calls, 0.0)

    def add(
        self,
        url: Shard,
        ledger: Path | None,
        most: int,
        join: JoinedSamples | None,
        *,
        allow_pipe: bool,
    ) -> None:
        """Add the first samples of a shard, at most ``most``, with the values of its ledger.

        Raises OtherShard.
        """
        values = SampleTable() if ledger is None else read_ledger(ledger)[0]
        recipe = self._plan.recipe
        budget = parse_size(recipe.image_memory)
        options = ViewOptions(images=recipe.image, captions=recipe.caption, budget=budget)
        with (
            scratch("run") as folder,
            seekable(url, folder, allow_pipe=allow_pipe) as (stored, _),
        ):
            samples = Samples(with_fields(stored, url, join), contents=True)
            views = Views(samples, options, url, recipe.stages)
            for sample in samples:
                if sample.trouble:
                    continue
                try:
                    view = views.view(sample)
                except RejectedSample:
                    continue
                if ledger is not None and not _is_in_ledger(values, sample):
                    raise OtherShard(ledger, url)
                self._add_sample(sample, view, values)
                most -= 1
                if most <= 0:
                    return

    def _add_sample(self, sample: TarSample, view: ShardView, values: SampleTable) -> None:
        """Add a sample: ``values`` are those of its ledger, and others are computed."""
        row = LedgerRow(len(self.table.rows), sample.key, sample.start, sample.end)
        for call in self._calls:
            score = self._plan.scores[call]
            if call in self._stored and isinstance(score, DatasetScore):
                continue
            if call in self._stored and sample.number in values.columns[call]:
                self.table.columns[call][row.number] = values.columns[call][sample.number]
                continue
            began = time.perf_counter()
            if call in self._plan.ranks:
                self._compute_for_cost(self._plan.ranks[call], sample, view, values)
            elif isinstance(score, DatasetScore):
                result_or_unknown(score.gather, view)
            else:
                value = result_or_unknown(plain_method(score, score.score), view)
                self.table.columns[call][row.number] = value
            self.seconds[call] += time.perf_counter() - began
        self.table.rows.append(row)

    def _compute_for_cost(
        self, number: RankedNumber, sample: TarSample, view: ShardView, values: SampleTable
    ) -> None:
        """Compute the scores from which a rank is computed, for their cost alone."""
        for call in number.calls:
            if call in self._stored and sample.number in values.columns[call]:
                continue
            score = self._plan.scores[call]
            result_or_unknown(plain_method(score, score.score), view)


def _is_in_ledger(values: SampleTable, sample: TarSample) -> bool:
    """Return whether a ledger has a sample."""
    return sample.number < len(values.rows) and same_sample(values.rows[sample.number], sample)
