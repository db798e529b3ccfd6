"""What the scores by models of a recipe cost a sample.

Only costs that an earlier run of the same models has measured.
"""

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.models.model_costs import ModelCost, read_costs
from wdsflow.records.run_folder import Layout
from wdsflow.shards.source.base import local_folder
from wdsflow.stages.scores.model.model import Model
from wdsflow.stages.scores.model.model_score import ModelScore

from .deciding.plan import plan_of
from .recipe.recipe import Recipe, canonical_recipe, digest


@dataclass(frozen=True)
class ScoreCost:
    """The costs of a score's models, in each folder where all of them were measured.

    ``catalog_seconds``: what the catalog says.
    """

    score: str
    # Folder -> costs.
    measured: tuple[tuple[str, tuple[ModelCost, ...]], ...]
    catalog_seconds: float | None


def models_by_digest(models: Iterable[Model]) -> dict[str, Model]:
    """Return models by the digests of their identities.

    Two models of one digest have the same outputs and costs.
    """
    return {digest(model.identity()): model for model in models}


def score_costs(
    recipe: Recipe, folders: Sequence[str | os.PathLike[str]], stored: Collection[ScoreCall] = ()
) -> list[ScoreCost]:
    """Return the costs of each score by models, as the runs in some folders measured them.

    Scores that are ``stored`` already are left out.

    Raises ValueError for an invalid recipe.
    """
    plan = plan_of(canonical_recipe(recipe))
    costs_of_scores = []
    for call, score in plan.scores.items():
        if not isinstance(score, ModelScore) or call in stored:
            continue
        digests = models_by_digest(score.models())
        measured = [
            (str(folder), costs) for folder in folders for costs in _in_folder(digests, folder)
        ]
        costs_of_scores.append(ScoreCost(str(call), tuple(measured), score.cpu_seconds))
    return costs_of_scores


def _in_folder(
    digests: Iterable[str], folder: str | os.PathLike[str]
) -> Iterable[tuple[ModelCost, ...]]:
    """Yield the costs of models on each device where all of them ran."""
    costs = read_costs(Layout(local_folder(folder)).costs())
    for where in dict.fromkeys(cost.where for cost in costs):
        by_model = {cost.model: cost for cost in costs if cost.where == where}
        if all(model_digest in by_model for model_digest in digests):
            yield tuple(by_model[model_digest] for model_digest in digests)
