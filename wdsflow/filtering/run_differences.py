"""How the run in a folder differs from the one that is requested, and whether its ledgers can get more scores.

Requests are those of ``Pass.request``, as JSON: "kind", "recipe", "scores", "urls" ...
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from wdsflow.filtering.recipe.recipe import Recipe, canonical, differences
from wdsflow.text.shell import quote
from wdsflow.text.words import how_many

# Kinds of runs, in words.
_KINDS = {"filter": "a filter", "measure": "a measurement"}
# Parts of a request that are reported as options or as shards, or do not count.
_REPORTED_SEPARATELY = frozenset({"wdsflow", "recipe", "urls", "names"})


class Differs(ValueError):
    """A folder holds a different run. ``differences``: (in the folder, requested), as text."""

    def __init__(
        self, folder: Path, stored: Mapping[str, object], requested: Mapping[str, object]
    ) -> None:
        self.differences = list(_differences(stored, requested))
        stored_kind, kind = str(stored.get("kind")), str(requested.get("kind"))
        old = [words for words, _ in self.differences]
        new = [words for _, words in self.differences]
        if stored_kind != kind:
            # Then a missing setting means nothing.
            old = [words for words in old if not words.startswith("no ")]
            new = [words for words in new if not words.startswith("no ")]
        holds = f"{folder} holds {_KINDS.get(stored_kind, 'a run')}{_with(old)}"
        if stored_kind != kind:
            super().__init__(f"{holds}; this is {_KINDS.get(kind, 'a run')}{_with(new)}")
        else:
            super().__init__(f"{holds}; this run has {', '.join(new)}")


def differ(stored: Mapping[str, object], requested: Mapping[str, object]) -> bool:
    """Return whether two runs differ: the version of wdsflow does not count, unless ``code`` differs."""
    stored = {name: value for name, value in stored.items() if name != "wdsflow"}
    requested = {name: value for name, value in requested.items() if name != "wdsflow"}
    return canonical(stored) != canonical(requested)


def can_add_scores(stored: Mapping[str, object], requested: Mapping[str, object]) -> bool:
    """Return whether two runs of ``measure`` differ only in their scores: ledgers can get the columns that they lack."""
    if {stored.get("kind"), requested.get("kind")} != {"measure"}:
        return False
    old = {**stored, "scores": None, "recipe": _without_scores(stored)}
    new = {**requested, "scores": None, "recipe": _without_scores(requested)}
    return not differ(old, new) and _agree(stored.get("scores"), requested.get("scores"))


def can_extend_ledger(metadata: Mapping[str, object], requested: Mapping[str, object]) -> bool:
    """Return whether a ledger, by its metadata, is that of a run of ``measure`` except for its scores."""
    return (
        canonical(_without_scores(metadata)) == canonical(_without_scores(requested))
        and canonical(metadata.get("view")) == canonical(requested.get("view"))
        and _agree(metadata.get("identities"), requested.get("scores"))
    )


def scores_of(run: Mapping[str, object]) -> tuple[str, ...]:
    """Return the scores of a run, or of a ledger, by its recipe."""
    recipe = run.get("recipe")
    scores = recipe.get("scores") if isinstance(recipe, dict) else None
    return tuple(map(str, scores)) if isinstance(scores, list) else ()


def _with(words: list[str]) -> str:
    listed = ", ".join(words)
    return f" with {listed}" if listed else ""


def _without_scores(run: Mapping[str, object]) -> object:
    recipe = run.get("recipe")
    # The identity of each score has its precision.
    return {**recipe, "scores": [], "precision": ""} if isinstance(recipe, dict) else recipe


def _agree(old: object, new: object) -> bool:
    """Return whether the scores that two runs share would have the same values."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return False
    return all(canonical(old[name]) == canonical(new[name]) for name in old.keys() & new.keys())


def _differences(
    stored: Mapping[str, object], requested: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    """Yield the settings that differ, as they are in the folder and as they are requested."""
    differs = stored.get("kind") != requested.get("kind")
    for old, new in _different_options(stored, requested):
        differs = True
        yield old, new
    for name in ("urls", "quarantine"):
        old_value, new_value = stored.get(name), requested.get(name)
        if canonical(old_value) != canonical(new_value):
            differs = True
            yield _input(name, old_value, new_value), _input(name, new_value, old_value)
    # The same command, with other libraries or another version of wdsflow.
    if not differs:
        for change in differences(_others(stored), _others(requested)):
            yield _version_change(change)


def _different_options(
    stored: Mapping[str, object], requested: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    """Yield the options of the recipes that differ."""
    old, new = stored.get("recipe"), requested.get("recipe")
    if not isinstance(old, dict) or not isinstance(new, dict):
        return
    defaults = Recipe().to_dict()
    # Other scores are added to the existing ones.
    adds_scores = stored.get("kind") == requested.get("kind") == "measure"
    for name in dict.fromkeys((*new, "precision")):
        if name == "scores" and adds_scores:
            continue
        if canonical(old.get(name)) != canonical(new.get(name)):
            yield _option(name, old.get(name), defaults), _option(name, new.get(name), defaults)


def _option(name: str, value: object, defaults: Mapping[str, object]) -> str:
    """Return a setting of a recipe as the option that sets it."""
    if name == "precision":
        return f"--precision {value or 'fp32'}"
    option = f"--{name.replace('_', '-')}"
    if name == "stages":
        return f"stages {canonical(value)}" if value else "no stages"
    if isinstance(value, bool):
        return option if value else f"no {option}"
    if value in ("", None, []):
        return f"no {option}"
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    note = " (the default)" if value == defaults.get(name) else ""
    return f"{option} {quote(text)}{note}"


def _input(name: str, value: object, other: object) -> str:
    """Return the shards of a run, with one that the other run does not have, or its option for quarantined samples."""
    if name == "quarantine":
        return f"--quarantine {quote(str(value))}" if value else "no --quarantine"
    urls = value if isinstance(value, list) else []
    other_urls = set(map(str, other)) if isinstance(other, list) else set()
    only_here = [url for url in urls if url not in other_urls]
    example = f", among them {only_here[0]}" if only_here else ""
    return f"{how_many(len(urls), 'shard')}{example}"


def _others(run: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in run.items() if name not in _REPORTED_SEPARATELY}


def _version_change(change: str) -> tuple[str, str]:
    """Return one of the ``differences`` as two texts."""
    name, _, values = change.partition(": ")
    old, _, new = values.partition(" is now ")
    if name == "code":
        subject = "outcomes of version"
    else:
        subject = name.removeprefix("scores.").replace(".versions.", " by ")
    return f"{subject} {old}", f"{subject} {new or 'other values'}"
