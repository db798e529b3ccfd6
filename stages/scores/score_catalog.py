"""All scores by name: wdsflow's own, and those of other distributions by entry points."""

from collections.abc import Iterable, Iterator
from dataclasses import fields
from functools import cache
from importlib import import_module
from typing import get_origin

from .base import Score

# The cheap ones first.
_FILES = (
    ("image_headers",), ("videos",), ("caption_words", "caption_contents"), ("pixels", "perceptual_hash", "reference_lists"), ("duplicates",),
    (
        "model.clip.aesthetic", "model.clip.clip_similarity", "model.clip.semantic", "model.clip.zero_shot",
        "model.transformer.caption_perplexity", "model.transformer.classify", "model.transformer.image_text_match",
        "model.transformer.text_classify", "model.ocr.ocr_area", "model.ocr.ocr_caption_overlap", "model.ocr.ocr_text",
        "model.tagging.tags",
    ),
)  # fmt: skip
# Entry points: name = "package.module:ClassName".
GROUP = "wdsflow.scores"


def _found() -> Iterator[type[Score]]:
    for files in _FILES:
        modules = [import_module(f"{__package__}.{file}") for file in files]
        found = (
            (module, each)
            for module in modules
            for each in vars(module).values()
            if _is_score(each)
        )
        own = (
            each
            for module, each in found
            if each.__module__ == module.__name__ and hasattr(each, "name")
        )
        yield from sorted(own, key=lambda score: score.name)


def _is_score(thing: object) -> bool:
    # To Python 3.10 list[int] is a class, too.
    return get_origin(thing) is None and isinstance(thing, type) and issubclass(thing, Score)


# A score is a class with a name, in one of the files: nothing registers itself on import.
SCORES: dict[str, type[Score]] = {score.name: score for score in _found()}


@cache
def all_scores() -> dict[str, type[Score]]:
    """Return wdsflow's scores and those of the entry points in the group ``wdsflow.scores``; the former take precedence.

    Raises ValueError if an entry point is not a score, or has another name than its score.
    """
    from importlib.metadata import entry_points

    found: dict[str, type[Score]] = {}
    for entry in entry_points(group=GROUP):
        score = entry.load()
        if not _is_score(score) or score.name != entry.name:
            raise ValueError(
                f"the entry point {entry.name!r} ({entry.value}) in {GROUP!r} is not a score of that name"
            )
        found[entry.name] = score
    return {**found, **SCORES}


def make_score(name: str, /, **settings: object) -> Score:
    """Return a score by its name, with settings. Raises ValueError; for an unknown name it suggests the nearest.

    >>> make_score("min_side").tier
    'header'
    """
    kind = SCORES.get(name) or all_scores().get(name)
    if kind is None:
        raise ValueError(f"no score is called {name!r}{_nearest(name, all_scores())}")
    known = [item.name for item in fields(kind) if item.init]
    for setting in settings:
        if setting not in known:
            raise ValueError(f"{name} has no setting {setting!r}{_nearest(setting, known)}")
    return kind(**settings)


def _nearest(name: str, names: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, names, 1, 0.6)
    return f"; did you mean {near[0]!r}?" if near else f"; use one of {', '.join(sorted(names))}"
