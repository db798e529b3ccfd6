"""Whether ledgers can get more scores.

They can if their run, or the ledger, differs in its scores only.

Requests are those of ``Pass.request``, as JSON.
"""

from collections.abc import Mapping

from wdsflow.filtering.recipe.recipe import canonical_json

from .run_differences import are_different_runs


def scores_of(run: Mapping[str, object]) -> tuple[str, ...]:
    """Return the scores of a run, or of a ledger, by its recipe."""
    recipe = run.get("recipe")
    if not isinstance(recipe, dict):
        return ()
    scores = recipe.get("scores")
    return tuple(map(str, scores)) if isinstance(scores, list) else ()


def can_add_scores(stored: Mapping[str, object], requested: Mapping[str, object]) -> bool:
    """Return whether two runs of ``measure`` differ only in their scores.

    Then ledgers can get the columns that they lack.
    """
    if {stored.get("kind"), requested.get("kind")} != {"measure"}:
        return False
    old = {**stored, "scores": None, "recipe": _recipe_without_scores(stored)}
    new = {**requested, "scores": None, "recipe": _recipe_without_scores(requested)}
    if are_different_runs(old, new):
        return False
    return _shared_scores_agree(stored.get("scores"), requested.get("scores"))


def can_extend_ledger(metadata: Mapping[str, object], requested: Mapping[str, object]) -> bool:
    """Return whether a ledger is that of a run of ``measure`` except for its scores.

    Its metadata decides.
    """
    old = _recipe_without_scores(metadata)
    new = _recipe_without_scores(requested)
    if canonical_json(old) != canonical_json(new):
        return False
    if canonical_json(metadata.get("view")) != canonical_json(requested.get("view")):
        return False
    return _shared_scores_agree(metadata.get("identities"), requested.get("scores"))


def _recipe_without_scores(run: Mapping[str, object]) -> object:
    recipe = run.get("recipe")
    if not isinstance(recipe, dict):
        return recipe
    # The identity of each score has its precision.
    return {**recipe, "scores": [], "precision": ""}


def _shared_scores_agree(old: object, new: object) -> bool:
    """Return whether the scores that two runs share would have the same values."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return False
    return all(
        canonical_json(old[name]) == canonical_json(new[name]) for name in old.keys() & new.keys()
    )
