"""Describes how the run in a folder differs from the requested one, in the words of the user."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wdsflow.filtering.recipe.recipe import Recipe, canonical, differences
from wdsflow.text.shell import quote
from wdsflow.text.words import how_many

_ONE_OF = {"filter": "a filter", "score": "a score", "cut": "a cut"}
_OPTIONS = {"lines_to": "to"}  # others have the name in the recipe


class Differs(ValueError):
    """A folder holds a different run. ``differences``: (in the folder, requested), as text."""

    def __init__(self, folder: Path, before: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
        self.differences = list(_differences(before, asked))
        kinds = [str(run.get("kind")) for run in (before, asked)]
        other = kinds[0] != kinds[1]  # then a missing setting means nothing
        there, here = (
            ", ".join(pair[side] for pair in self.differences if not (other and pair[side].startswith("no ")))
            for side in (0, 1)
        )
        one, two = (f" with {words}" if words else "" for words in (there, here))
        this = f"this is {_ONE_OF.get(kinds[1], 'a run')}{two}" if other else f"this run has {here}"
        super().__init__(f"{folder} holds {_ONE_OF.get(kinds[0], 'a run')}{one}; {this}")


def differ(before: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Return whether two runs differ: another version of wdsflow does not matter, unless ``code`` differs."""
    one, other = ({name: value for name, value in run.items() if name != "wdsflow"} for run in (before, asked))
    return canonical(one) != canonical(other)


def grows(before: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Return whether two runs of ``score`` differ only in their scores: a ledger can get the columns that it lacks."""
    if {before.get("kind"), asked.get("kind")} != {"score"}:
        return False
    mine = ({**run, "scores": None, "recipe": _without_scores(run)} for run in (before, asked))
    return not differ(*mine) and _agree(before.get("scores"), asked.get("scores"))


def has_fewer(about: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Return whether a ledger, by its metadata, has some of the scores of a run of ``score``, and nothing else differs."""
    old, new = (set(scores_of(run)) for run in (about, asked))
    return (
        old < new
        and canonical(_without_scores(about)) == canonical(_without_scores(asked))
        and canonical(about.get("view")) == canonical(asked.get("view"))
        and _agree(about.get("identities"), asked.get("scores"))
    )


def scores_of(run: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the scores of a run, or of a ledger, by its recipe."""
    recipe = run.get("recipe")
    found = recipe.get("scores") if isinstance(recipe, dict) else None
    return tuple(map(str, found)) if isinstance(found, list) else ()


def _without_scores(run: Mapping[str, Any]) -> Any:
    recipe = run.get("recipe")
    return {**recipe, "scores": []} if isinstance(recipe, dict) else recipe


def _agree(old: Any, new: Any) -> bool:
    """Return whether the scores that two runs share would have the same values."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return False
    return all(canonical(old[name]) == canonical(new[name]) for name in old.keys() & new.keys())


def _differences(before: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    told = before.get("kind") != asked.get("kind")
    old, new = before.get("recipe"), asked.get("recipe")
    if isinstance(old, dict) and isinstance(new, dict):
        defaults = Recipe().to_dict()
        adds = not told and before.get("kind") == "score"  # other scores are added to those that are there
        for name in (each for each in new if not (adds and each == "scores")):
            if canonical(old.get(name)) != canonical(new[name]):
                told = True
                yield _option(name, old.get(name), defaults), _option(name, new[name], defaults)
    for name in ("urls", "quarantine"):
        if canonical(before.get(name)) != canonical(asked.get(name)):
            told = True
            yield _named(name, before.get(name), asked.get(name)), _named(name, asked.get(name), before.get(name))
    if not told:  # the same command, with other libraries or another version of wdsflow
        for found in differences(_rest(before), _rest(asked)):
            yield _parted(found)


def _rest(run: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in run.items() if name not in {"wdsflow", "recipe", "urls", "names"}}


def _parted(found: str) -> tuple[str, str]:
    """Return one of the ``differences`` as two texts."""
    what, _, values = found.partition(": ")
    old, _, new = values.partition(" is now ")
    what = "outcomes of version" if what == "code" else what.removeprefix("scores.").replace(".versions.", " by ")
    return f"{what} {old}", f"{what} {new or 'other values'}"


def _option(name: str, value: Any, defaults: Mapping[str, Any]) -> str:
    """Return a setting of a recipe as the option that sets it."""
    if name == "pilot":
        return "a measured order of terms" if value else "no measured order"
    option = f"--{_OPTIONS.get(name, name).replace('_', '-')}"
    if name == "stages":
        return f"stages {canonical(value)}" if value else "no stages"
    if isinstance(value, bool):
        return option if value else f"no {option}"
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    if value in ("", None, []):
        return f"no {option}"
    return f"{option} {quote(text)}" + (" (the default)" if value == defaults.get(name) else "")


def _named(name: str, value: Any, other: Any) -> str:
    if name == "quarantine":
        return f"--quarantine {quote(str(value))}" if value else "no --quarantine"
    urls, others = (each if isinstance(each, list) else [] for each in (value, other))
    only = [url for url in urls if url not in set(map(str, others))]
    example = f", among them {only[0]}" if only else ""
    return f"{how_many(len(urls), 'shard')}{example}"
