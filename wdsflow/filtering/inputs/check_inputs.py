"""Checks, before the first shard, that captions and json values are where a recipe looks."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import fields, replace
from itertools import islice

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.plan import FilterPlan, plan_of
from wdsflow.filtering.joined_samples import JoinedSamples
from wdsflow.filtering.predicates.sample_facts import InJson
from wdsflow.filtering.recipe.recipe import Recipe, canonical_json, recipe_to_record
from wdsflow.filtering.samples.shard_view import ShardView
from wdsflow.shards.shard import Shard
from wdsflow.stages.scores.base import Score, ScoreError
from wdsflow.stages.scores.model.batch_score import BatchScore
from wdsflow.stages.scores.sample_fields import CAPTIONS

from .caption_search import NoCaptions, find_captions
from .checked_samples import SearchScope, all_samples, first_samples, spread_shards
from .json_names import NoJsonValue, similar_names

AUTO = "auto"
# Most samples that are read of all checked shards together:
# a rare name must not cause a search of all shards.
_CHECKED = 20_000
# Reasons of a score that say that its input is missing.
_NO_VALUE = frozenset({"no-json", "no-value", "not-a-number", "not-text"})
_NO_CAPTION = frozenset({"no-caption", "not-text"})


def with_captions(
    urls: Sequence[Shard],
    recipe: Recipe,
    *,
    allow_pipe: bool = False,
    earlier: Mapping[str, object] | None = None,
    join: JoinedSamples | None = None,
) -> tuple[Recipe, str]:
    """Return a recipe with the fields of captions, and a line on the chosen fields.

    The line is "" unless the recipe has "auto".

    ``earlier`` is the recipe of a run to resume, as JSON: its fields are kept without a new search.
    Otherwise shards are read until each of the fields had a caption in some sample, at most 20,000
    samples. Raises NoCaptions if none has.
    """
    earlier = earlier or {}
    line = ""
    if recipe.caption == AUTO:
        chosen = earlier.get("caption")
        captions = None
        if not chosen:
            captions = find_captions(urls, recipe, allow_pipe=allow_pipe, join=join)
            chosen = captions.fields if captions else CAPTIONS
        recipe = replace(recipe, caption=str(chosen))
        line = f"--caption auto: {captions or recipe.caption}"
    is_resumed = earlier and canonical_json(recipe_to_record(recipe)) == canonical_json(earlier)
    if not is_resumed:
        check_inputs(urls, recipe, plan_of(recipe).scores, allow_pipe=allow_pipe, join=join)
    return recipe, line


def check_inputs(
    urls: Sequence[Shard],
    recipe: Recipe,
    calls: Collection[ScoreCall],
    *,
    allow_pipe: bool = False,
    join: JoinedSamples | None = None,
) -> None:
    """Check that some sample of tars has the input of a recipe's scores: captions, values in json.

    Raises NoCaptions, NoJsonValue.
    """
    plan = plan_of(recipe)
    optional = _may_be_missing(plan)
    inputs: list[str | InJson] = [*_caption_fields(recipe, calls)]
    for call in calls:
        score = plan.scores[call]
        if isinstance(score, InJson) and call not in optional:
            inputs.append(score)
    _check(urls, recipe, inputs, join, allow_pipe=allow_pipe)


def check_captions(urls: Sequence[Shard], recipe: Recipe, *, allow_pipe: bool = False) -> None:
    """Raise NoCaptions if no sample of tars has a caption in the fields of a recipe."""
    inputs = _caption_fields(recipe, plan_of(recipe).scores)
    _check(urls, recipe, inputs, None, allow_pipe=allow_pipe)


def _check(
    urls: Sequence[Shard],
    recipe: Recipe,
    inputs: Iterable[str | InJson],
    join: JoinedSamples | None,
    *,
    allow_pipe: bool,
) -> None:
    """Raise NoCaptions or NoJsonValue if no sample has one of the inputs.

    An input is fields of captions, or a value in json.
    """
    missing = list(dict.fromkeys(inputs))
    if not missing or not urls:
        return
    shards, samples = 0, 0
    names = Counter[str]()
    chosen = spread_shards(urls)
    most = _CHECKED // max(1, len(chosen))
    is_all = len(chosen) == len(urls)
    for url in chosen:
        opened = all_samples(url, recipe, allow_pipe=allow_pipe, join=join)
        with suppress(OSError), closing(opened) as views:
            shards += 1
            for view in islice(views, most):
                samples += 1
                names.update(view.fields)
                missing = [source for source in missing if not _has_input(view, source)]
                if not missing:
                    return
            is_all = is_all and next(views, None) is None
    if not samples:
        return
    source = missing[0]
    scope = SearchScope(samples, shards, is_all)
    if isinstance(source, InJson):
        surveyed = first_samples(urls, recipe, allow_pipe=allow_pipe, join=join)
        raise NoJsonValue(source, scope, *similar_names(surveyed, source))
    captions = find_captions(urls, recipe, like=source, allow_pipe=allow_pipe, join=join)
    raise NoCaptions(source, scope, [name for name, _ in names.most_common(6)], captions)


def _caption_fields(recipe: Recipe, calls: Collection[ScoreCall]) -> list[str]:
    """Return the fields of captions that some scores of a recipe use.

    Those of the recipe are included if all its scores are checked.
    """
    plan = plan_of(recipe)
    optional = _may_be_missing(plan)
    used = []
    for call, score in plan.scores.items():
        if call in calls and call not in optional and _uses_captions(score):
            used.append(vars(score)["caption"] or recipe.caption)
    if plan.scores.keys() <= {*calls} and recipe.caption != CAPTIONS:
        used.append(recipe.caption)
    return used


def _uses_captions(score: Score) -> bool:
    if isinstance(score, BatchScore) and score.inputs == "image":
        return False
    return any(item.name == "caption" for item in fields(score))


def _may_be_missing(plan: FilterPlan) -> frozenset[ScoreCall]:
    """Return the scores that the predicate tests for None.

    The predicate handles samples without their input.
    """
    return plan.expression.may_be_missing if plan.expression is not None else frozenset()


def _has_input(view: ShardView, source: str | InJson) -> bool:
    """Return whether a sample has a caption in some fields, readable or not, or a value in json."""
    try:
        if isinstance(source, InJson):
            source.score(view)
        else:
            view.captions(source)
    except ScoreError as error:
        missing = _NO_VALUE if isinstance(source, InJson) else _NO_CAPTION
        return error.slug not in missing
    # A stream that cannot seek back: unknown.
    except OSError:
        return True
    return True
