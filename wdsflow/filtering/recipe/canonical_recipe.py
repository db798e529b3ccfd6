"""One canonical form for equivalent recipes."""

from dataclasses import replace

from wdsflow.filtering.where.predicate import parse, parse_score
from wdsflow.filtering.where.ranked_number import share_predicate
from wdsflow.filtering.where.value_ranges import check_ranges
from wdsflow.stages.scores.score_catalog import all_scores

from .recipe import Recipe


def canonical_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe in canonical form: white space and the like do not matter, shares to keep are terms of ``where``.

    Raises ValueError, such as WhereError.
    """
    names = all_scores()
    parts = [str(parse(recipe.where, names))] if recipe.where.strip() else []
    parts = parts if not recipe.keep else [f"({part})" for part in parts]
    parts += [share_predicate(text, names) for text in recipe.keep]
    where = str(parse(" and ".join(parts), names)) if parts else ""
    scores = (str(parse_score(text, names)) for text in recipe.scores)
    return replace(recipe, where=where, keep=(), scores=tuple(dict.fromkeys(scores)))


def conditions_told(recipe: Recipe) -> list[str]:
    """Return a line for each comparison of the predicate that has the same result for all samples.

    ``recipe``: as the user wrote it, since errors show the place in its predicate.

    Raises WhereError if a term can never hold; ValueError as ``canonical_recipe``.
    """
    names = all_scores()
    parts = [recipe.where] if recipe.where.strip() else []
    parts += [share_predicate(text, names) for text in recipe.keep]
    return [*dict.fromkeys(line for part in parts for line in check_ranges(parse(part, names), names))]
