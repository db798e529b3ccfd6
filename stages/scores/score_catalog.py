"""All scores by name: wdsflow's own, and those of other distributions by entry points."""

from collections.abc import Iterable, Iterator
from dataclasses import fields
from importlib import import_module
from types import ModuleType
from typing import TypeGuard, get_origin

from wdsflow.installed import entry_points_of

from .base import Score

# The cheap ones first.
_MODULES = (
    ("image_headers",),
    ("videos",),
    ("caption_words", "caption_contents"),
    ("pixels", "perceptual_hash", "reference_lists"),
    ("duplicates",),
    (
        "model.clip.aesthetic",
        "model.clip.clip_similarity",
        "model.clip.semantic",
        "model.clip.zero_shot",
        "model.transformer.caption_perplexity",
        "model.transformer.classify",
        "model.transformer.image_text_match",
        "model.transformer.text_classify",
        "model.ocr.ocr_area",
        "model.ocr.ocr_caption_overlap",
        "model.ocr.ocr_text",
        "model.tagging.tags",
    ),
)
# Entry points: name = "package.module:ClassName".
GROUP = "wdsflow.scores"


def _builtin_scores() -> Iterator[type[Score]]:
    """Yield wdsflow's own scores.

    A score is a class with a name: nothing registers itself on import.
    """
    for names in _MODULES:
        scores: list[type[Score]] = []
        for name in names:
            module = import_module(f"{__package__}.{name}")
            scores += _scores_of(module)
        yield from sorted(scores, key=lambda score: score.name)


def _scores_of(module: ModuleType) -> list[type[Score]]:
    """Return the scores that a module defines, without those that it imports, and base classes."""
    scores = []
    for value in vars(module).values():
        if not _is_score(value) or value.__module__ != module.__name__:
            continue
        if hasattr(value, "name"):
            scores.append(value)
    return scores


def _is_score(value: object) -> TypeGuard[type[Score]]:
    # To Python 3.10 list[int] is a class, too.
    return get_origin(value) is None and isinstance(value, type) and issubclass(value, Score)


SCORES: dict[str, type[Score]] = {score.name: score for score in _builtin_scores()}


def all_scores() -> dict[str, type[Score]]:
    """Return wdsflow's scores and those of other distributions, by name.

    Other distributions have entry points in the group ``wdsflow.scores``. wdsflow's scores take
    precedence.

    Raises ValueError if an entry point is not a score, or has another name than its score.
    """
    scores: dict[str, type[Score]] = {}
    for entry in entry_points_of(GROUP):
        score = entry.load()
        if not _is_score(score) or score.name != entry.name:
            raise ValueError(
                f"the entry point {entry.name!r} ({entry.value}) in {GROUP!r} is not a score of that name"
            )
        scores[entry.name] = score
    return {**scores, **SCORES}


def make_score(name: str, /, **settings: object) -> Score:
    """Return a score by its name, with settings.

    Raises ValueError; for an unknown name it suggests the nearest.

    >>> make_score("min_side").tier
    'header'
    """
    score_class = SCORES.get(name) or all_scores().get(name)
    if score_class is None:
        raise ValueError(f"no score is called {name!r}{_nearest(name, all_scores())}")
    names = [item.name for item in fields(score_class) if item.init]
    for setting in settings:
        if setting not in names:
            raise ValueError(f"{name} has no setting {setting!r}{_nearest(setting, names)}")
    return score_class(**settings)


def _nearest(name: str, names: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, names, 1, 0.6)
    return f"; did you mean {near[0]!r}?" if near else f"; use one of {', '.join(sorted(names))}"
