"""One canonical form for equivalent recipes."""

from dataclasses import replace

from wdsflow.filtering.where.known_facts import FACTS
from wdsflow.filtering.where.predicate import parse, parse_score
from wdsflow.stages.scores.score_catalog import all_scores

from .recipe import Recipe


def canonical_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe in canonical form: white space and the like do not matter. Raises ValueError, such as WhereError."""
    names = {**FACTS, **all_scores()}
    where = str(parse(recipe.where, names)) if recipe.where.strip() else ""
    scores = (str(parse_score(text, names)) for text in recipe.scores)
    return replace(recipe, where=where, scores=tuple(dict.fromkeys(scores)))
