"""Filter by the scores of an earlier run; scores that its ledgers lack are computed."""

import os
from collections.abc import Sequence

from wdsflow.filtering.deciding.plan import plan_of
from wdsflow.filtering.deciding.stored_scores import (
    is_complete,
    missing_columns,
    with_ledger_options,
)
from wdsflow.filtering.ledger.ledger_metadata import NotCompared, check_same_join, read_metadata
from wdsflow.filtering.recipe.recipe import canonical_recipe, fixed_conditions
from wdsflow.records.run_folder import Layout
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import local_folder

from .inputs.check_inputs import check_inputs
from .joined_samples import JoinedSamples, digest_of
from .model_precision import with_precision
from .passes.filter_pass import Pass
from .passes.pass_engine import connected_cluster
from .passes.run_pass import run_pass
from .passes.two_passes import depend_on_ledgers, first_pass_of, refuse_slices, run_first_pass
from .run_options import say_lines
from .run_output import refuse_ledger_folder, refuse_unreadable_paths
from .run_report import RunReport
from .run_request import FilterRequest


def filter_by_ledgers(request: FilterRequest, ledger: str | os.PathLike[str]) -> RunReport:
    """Filter shards by the ledgers in a folder. Raises as ``filter_shards``."""
    options = request.options
    say_lines(options, fixed_conditions(request.recipe))
    recipe = canonical_recipe(request.recipe)
    layout = request.layout()
    scored = Layout(local_folder(ledger))
    shards, names = request.shards()
    refuse_unreadable_paths(layout, shards, names)
    refuse_ledger_folder(ledger, layout, "--ledger")

    # What the run computes: the rest of the recipe is that of the ledgers.
    recipe = with_ledger_options(recipe, scored)
    recipe, line_on_precision = with_precision(recipe, options)
    say_lines(options, filter(None, [line_on_precision]))
    plan = plan_of(recipe)
    missing_scores = missing_columns(plan, scored, names)
    if recipe.embeddings and not plan.model_calls.isdisjoint(missing_scores):
        raise ValueError(
            f"--embeddings copies those of {scored.folder}, which has none for some scores: measure them first"
        )
    join = request.joined(shards)
    _refuse_other_join(scored, shards, names, join)
    check_inputs(shards, recipe, missing_scores, allow_pipe=options.allow_pipe, join=join)
    compares = bool(plan.dataset_calls)
    refuse_slices(options, compares=compares)

    pass_ = Pass(
        "filter",
        shards,
        names,
        layout,
        recipe,
        options,
        join=join,
        scores_from=scored,
        embeddings_from=request.embeddings(recipe, layout, names),
        compares=compares,
        computes_missing=bool(missing_scores) or not is_complete(scored, recipe),
        prepare=_prepare,
    )
    with connected_cluster(options) as cluster:
        pass_.cluster = cluster
        return run_pass(pass_)


def _refuse_other_join(
    scored: Layout, shards: Sequence[Shard], names: Sequence[str], join: JoinedSamples | None
) -> None:
    """Raise LedgerOfOtherJoin if the first ledger was made with another table, or with none."""
    for url, name in zip(shards, names, strict=True):
        path = scored.ledger(name)
        if path.is_file():
            check_same_join(read_metadata(path)["input"], digest_of(join, url), path)
            return


def _prepare(pass_: Pass, report: RunReport) -> bool:
    """Make a pass depend on its ledgers.

    If needed, all samples are compared by them. Returns False if that failed.
    """
    assert pass_.scores_from is not None
    try:
        depend_on_ledgers(pass_, pass_.scores_from)
    except NotCompared:
        # Its samples were not scored for this comparison:
        # a first pass computes the missing values.
        first = first_pass_of(pass_, reused=pass_.scores_from)
        return run_first_pass(first, pass_, report)
    return True
