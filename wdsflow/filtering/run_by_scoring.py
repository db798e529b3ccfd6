"""Score shards, and filter them by these scores if requested."""

from wdsflow.filtering.deciding.plan import plan_of
from wdsflow.filtering.recipe.recipe import canonical_recipe, fixed_conditions
from wdsflow.records.run_folder import recorded_recipe

from .added_scores import with_scores_of_ledgers
from .inputs.check_inputs import with_captions
from .model_precision import with_precision
from .passes.filter_pass import Pass
from .passes.pass_engine import connected_cluster
from .passes.run_pass import run_pass
from .passes.two_passes import first_pass_of, refuse_slices, run_first_pass
from .run_options import say_lines
from .run_output import refuse_unreadable_paths
from .run_report import RunReport
from .run_request import FilterRequest


def score_shards(request: FilterRequest) -> RunReport:
    """Run one pass, or two if scores compare all samples. Raises as ``filter_shards``."""
    options = request.options
    say_lines(options, fixed_conditions(request.recipe))
    recipe = canonical_recipe(request.recipe)
    layout = request.layout()
    shards, names = request.shards()
    refuse_unreadable_paths(layout, shards, names)
    join = request.joined(shards)

    # Complete the recipe: scores of existing ledgers, the precision of models, fields of captions.
    earlier = {} if options.restart else recorded_recipe(layout.run_file)
    line_on_scores = ""
    if request.kind == "measure" and not options.restart:
        recipe, line_on_scores = with_scores_of_ledgers(recipe, layout, is_alone=options.count == 1)
    recipe, line_on_precision = with_precision(recipe, options)
    recipe, line_on_captions = with_captions(
        shards, recipe, allow_pipe=options.allow_pipe, earlier=earlier, join=join
    )
    say_lines(options, filter(None, (line_on_scores, line_on_precision, line_on_captions)))

    embedded = request.embeddings(recipe, layout, names)
    compares = bool(plan_of(recipe).dataset_calls)
    pass_ = Pass(
        request.kind,
        shards,
        names,
        layout,
        recipe,
        options,
        tars=request.kind == "filter",
        embeddings_from=embedded,
        join=join,
        sources=None if embedded is None else embedded.digest,
        compares=compares,
        prepare=_prepare if compares else None,
    )
    if not compares:
        return run_pass(pass_)
    refuse_slices(options, compares=True)
    # Both passes use one connection to the cluster.
    with connected_cluster(options) as cluster:
        pass_.cluster = cluster
        return run_pass(pass_)


def _prepare(pass_: Pass, report: RunReport) -> bool:
    """Compute what the comparison needs, and compare all samples. Return False if that failed."""
    return run_first_pass(first_pass_of(pass_), pass_, report)
