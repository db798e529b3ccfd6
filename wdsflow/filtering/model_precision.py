"""The precision in which the models of a run compute."""

from dataclasses import replace
from typing import NamedTuple

from wdsflow.filtering.deciding.plan import plan_of
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.memory.batching.device_names import computes_bf16

from .run_options import RunOptions


class PreciseRecipe(NamedTuple):
    """A recipe with the precision of its models, and a line for the user if that is not fp32."""

    recipe: Recipe
    line: str


def with_precision(recipe: Recipe, options: RunOptions) -> PreciseRecipe:
    """Return the recipe with the precision in which its models run.

    On a cluster "auto" is fp32: which GPUs its nodes have is not known yet.
    """
    if not _lacks_precision(recipe):
        return PreciseRecipe(replace(recipe, precision="auto"), "")
    if recipe.precision != "auto":
        return PreciseRecipe(recipe, "")
    if options.engine != "local" or not computes_bf16(options.device):
        return PreciseRecipe(replace(recipe, precision="fp32"), "")
    line = "models run in bf16 on this GPU; --precision fp32 is exact, and slower"
    return PreciseRecipe(replace(recipe, precision="bf16"), line)


def _lacks_precision(recipe: Recipe) -> bool:
    """Return whether a score by a model has no precision among its settings."""
    for call, score in plan_of(recipe).scores.items():
        if not hasattr(score, "precision"):
            continue
        if dict(call.settings).get("precision", "auto") == "auto":
            return True
    return False
