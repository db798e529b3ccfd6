"""How the run in a folder differs from the one that is requested, in words.

Requests are those of ``Pass.request``, as JSON: "kind", "recipe", "scores", "urls" ...
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from wdsflow.filtering.recipe.recipe import Recipe, canonical_json, differences
from wdsflow.joining.recorded_join import OPTIONS, join_of
from wdsflow.text.shell import quote
from wdsflow.text.words import how_many

# Kinds of runs, in words.
_KINDS = {"filter": "a filter", "measure": "a measurement"}
# Parts of a request that are reported as options or as shards, or do not count.
_REPORTED_SEPARATELY = frozenset({"wdsflow", "recipe", "urls", "names", "join", OPTIONS})
# Parts by which two runs do not differ: the version, and where the table is.
_NO_DIFFERENCE = frozenset({"wdsflow", OPTIONS})


class SettingDifference(NamedTuple):
    """A setting as it is in the folder, and as it is requested; in words."""

    stored: str
    requested: str


class Differs(ValueError):
    """A folder holds a different run."""

    def __init__(
        self, folder: Path, stored: Mapping[str, object], requested: Mapping[str, object]
    ) -> None:
        changes = list(_differences(stored, requested))
        old = [difference.stored for difference in changes]
        new = [difference.requested for difference in changes]
        stored_kind = str(stored.get("kind"))
        kind = str(requested.get("kind"))
        stored_run = _KINDS.get(stored_kind, "a run")
        if stored_kind == kind:
            holds = f"{folder} holds {stored_run}{_with_words(old)}"
            super().__init__(f"{holds}; this run has {', '.join(new)}")
            return
        # A filter and a measurement have different settings: a missing one means nothing.
        old = [words for words in old if not words.startswith("no ")]
        new = [words for words in new if not words.startswith("no ")]
        holds = f"{folder} holds {stored_run}{_with_words(old)}"
        super().__init__(f"{holds}; this is {_KINDS.get(kind, 'a run')}{_with_words(new)}")


def are_different_runs(stored: Mapping[str, object], requested: Mapping[str, object]) -> bool:
    """Return whether two runs differ.

    The version of wdsflow does not count, unless ``code`` differs. Nor does the path of a table.
    """
    old = {name: value for name, value in stored.items() if name not in _NO_DIFFERENCE}
    new = {name: value for name, value in requested.items() if name not in _NO_DIFFERENCE}
    return canonical_json(old) != canonical_json(new)


def _with_words(words: list[str]) -> str:
    listed = ", ".join(words)
    return f" with {listed}" if listed else ""


def _differences(
    stored: Mapping[str, object], requested: Mapping[str, object]
) -> Iterator[SettingDifference]:
    """Yield the settings that differ."""
    is_other_command = stored.get("kind") != requested.get("kind")
    for difference in _different_options(stored, requested):
        is_other_command = True
        yield difference
    for name in ("urls", "quarantine"):
        old = stored.get(name)
        new = requested.get(name)
        if canonical_json(old) != canonical_json(new):
            is_other_command = True
            yield SettingDifference(_input_text(name, old, new), _input_text(name, new, old))
    old_join, new_join = stored.get("join"), requested.get("join")
    if canonical_json(old_join) != canonical_json(new_join):
        is_other_command = True
        old_words = _join_text(old_join, new_join, join_of(stored))
        new_words = _join_text(new_join, old_join, join_of(requested))
        yield SettingDifference(old_words, new_words)
    if is_other_command:
        return
    # The same command, with other libraries or another version of wdsflow.
    for change in differences(_versions(stored), _versions(requested)):
        yield _version_change(change)


def _different_options(
    stored: Mapping[str, object], requested: Mapping[str, object]
) -> Iterator[SettingDifference]:
    """Yield the options of the recipes that differ."""
    old = stored.get("recipe")
    new = requested.get("recipe")
    if not isinstance(old, dict) or not isinstance(new, dict):
        return
    defaults = Recipe().to_dict()
    # Other scores are added to the existing ones.
    adds_scores = stored.get("kind") == requested.get("kind") == "measure"
    for name in dict.fromkeys((*new, "precision")):
        if name == "scores" and adds_scores:
            continue
        if canonical_json(old.get(name)) != canonical_json(new.get(name)):
            yield SettingDifference(
                _option_text(name, old.get(name), defaults),
                _option_text(name, new.get(name), defaults),
            )


def _option_text(name: str, value: object, defaults: Mapping[str, object]) -> str:
    """Return a setting of a recipe as the option that sets it."""
    if name == "precision":
        return f"--precision {value or 'fp32'}"
    if name == "stages":
        return f"stages {canonical_json(value)}" if value else "no stages"
    option = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return option if value else f"no {option}"
    if value in ("", None, []):
        return f"no {option}"
    text = str(value)
    if isinstance(value, list):
        text = ",".join(map(str, value))
    note = " (the default)" if value == defaults.get(name) else ""
    return f"{option} {quote(text)}{note}"


def _input_text(name: str, value: object, other: object) -> str:
    """Return the shards of a run, or its option for quarantined samples.

    Of the shards, one that the other run does not have is named.
    """
    if name == "quarantine":
        return f"--quarantine {quote(str(value))}" if value else "no --quarantine"
    urls = value if isinstance(value, list) else []
    other_urls = set(map(str, other)) if isinstance(other, list) else set()
    only_in_this = [url for url in urls if url not in other_urls]
    example = f", among them {only_in_this[0]}" if only_in_this else ""
    return f"{how_many(len(urls), 'shard')}{example}"


def _join_text(value: object, other: object, options: Mapping[str, object]) -> str:
    """Return the table of a run in words: what it has in common with the other run is left out.

    Args:
        value: what determines the values of samples; None without a table.
        other: the same of the other run.
        options: of the join.
    """
    if not isinstance(value, dict):
        return "no --join"
    old = other if isinstance(other, dict) else {}
    words = []
    if value.get("on") != old.get("on"):
        words.append(f"--join-on {quote(str(value.get('on')))}")
    sets = value.get("set")
    if sets != old.get("set") and isinstance(sets, list):
        words += [f"--join-set {quote(str(text))}" for text in sets]
    drops = value.get("drop unmatched")
    if drops != old.get("drop unmatched"):
        words.append("--join-drop-unmatched" if drops else "no --join-drop-unmatched")
    if value.get("ambiguous") != old.get("ambiguous"):
        words.append(f"--join-ambiguous {options.get('join_ambiguous', 'refuse')}")
    if value.get("table") != old.get("table"):
        name = quote(str(options.get("join", "TABLE")))
        words.insert(0, f"--join {name} (digest {str(value.get('table'))[:8]})")
    return " ".join(words)


def _versions(run: Mapping[str, object]) -> dict[str, object]:
    """Return the parts of a request that depend on versions of programs."""
    return {name: value for name, value in run.items() if name not in _REPORTED_SEPARATELY}


def _version_change(change: str) -> SettingDifference:
    """Return a line of ``differences``, such as "code: 3 is now 4", as a difference."""
    name, _, values = change.partition(": ")
    old, _, new = values.partition(" is now ")
    if name == "code":
        subject = "outcomes of version"
    else:
        subject = name.removeprefix("scores.").replace(".versions.", " by ")
    return SettingDifference(f"{subject} {old}", f"{subject} {new or 'other values'}")
