"""The record of ``filter`` and ``measure``: several files per shard, slices, growing ledgers, and differences of runs."""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from wdsflow.filtering.ledger.ledger_metadata import read_about
from wdsflow.filtering.recipe.recipe import Recipe, canonical, differences
from wdsflow.records.file_identity import MUST_EXIST, Identity
from wdsflow.records.folder_lock import Lock
from wdsflow.records.output_record import OutputRecord
from wdsflow.records.run_state import part_name
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import input_identity
from wdsflow.text.shell import quote
from wdsflow.text.words import how_many

from .run_folder import COSTS, MANIFEST, Layout, ShardRecord, refuse

_ONE_OF = {"filter": "a filter", "measure": "a measurement"}


class Differs(ValueError):
    """A folder holds a different run. ``differences``: (in the folder, requested), as text."""

    def __init__(
        self, folder: Path, before: Mapping[str, object], asked: Mapping[str, object]
    ) -> None:
        self.differences = list(_differences(before, asked))
        kinds = [str(run.get("kind")) for run in (before, asked)]
        # Then a missing setting means nothing.
        other = kinds[0] != kinds[1]
        there, here = (
            ", ".join(
                pair[side]
                for pair in self.differences
                if not (other and pair[side].startswith("no "))
            )
            for side in (0, 1)
        )
        one, two = (f" with {words}" if words else "" for words in (there, here))
        this = f"this is {_ONE_OF.get(kinds[1], 'a run')}{two}" if other else f"this run has {here}"
        super().__init__(f"{folder} holds {_ONE_OF.get(kinds[0], 'a run')}{one}; {this}")


def differ(before: Mapping[str, object], asked: Mapping[str, object]) -> bool:
    """Return whether two runs differ: the version of wdsflow does not count, unless ``code`` differs."""
    one, other = (
        {name: value for name, value in run.items() if name != "wdsflow"} for run in (before, asked)
    )
    return canonical(one) != canonical(other)


def grows(before: Mapping[str, object], asked: Mapping[str, object]) -> bool:
    """Return whether two runs of ``measure`` differ only in their scores: a ledger can get the columns that it lacks."""
    if {before.get("kind"), asked.get("kind")} != {"measure"}:
        return False
    mine = ({**run, "scores": None, "recipe": _without_scores(run)} for run in (before, asked))
    return not differ(*mine) and _agree(before.get("scores"), asked.get("scores"))


def can_grow(about: Mapping[str, object], asked: Mapping[str, object]) -> bool:
    """Return whether a ledger, by its metadata, is that of a run of ``measure`` but for its scores."""
    return (
        canonical(_without_scores(about)) == canonical(_without_scores(asked))
        and canonical(about.get("view")) == canonical(asked.get("view"))
        and _agree(about.get("identities"), asked.get("scores"))
    )


def scores_of(run: Mapping[str, object]) -> tuple[str, ...]:
    """Return the scores of a run, or of a ledger, by its recipe."""
    recipe = run.get("recipe")
    found = recipe.get("scores") if isinstance(recipe, dict) else None
    return tuple(map(str, found)) if isinstance(found, list) else ()


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
    before: Mapping[str, object], asked: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    found_any = before.get("kind") != asked.get("kind")
    old, new = before.get("recipe"), asked.get("recipe")
    if isinstance(old, dict) and isinstance(new, dict):
        defaults = Recipe().to_dict()
        # Other scores are added to the existing ones.
        adds = not found_any and before.get("kind") == "measure"
        for name in (
            each
            for each in (*new, *({"precision"} - new.keys()))
            if not (adds and each == "scores")
        ):
            if canonical(old.get(name)) != canonical(new.get(name)):
                found_any = True
                yield _option(name, old.get(name), defaults), _option(name, new.get(name), defaults)
    for name in ("urls", "quarantine"):
        if canonical(before.get(name)) != canonical(asked.get(name)):
            found_any = True
            yield (
                _named(name, before.get(name), asked.get(name)),
                _named(name, asked.get(name), before.get(name)),
            )
    # The same command, with other libraries or another version of wdsflow.
    if not found_any:
        for found in differences(_rest(before), _rest(asked)):
            yield _parted(found)


def _rest(run: Mapping[str, object]) -> dict[str, object]:
    return {
        name: value
        for name, value in run.items()
        if name not in {"wdsflow", "recipe", "urls", "names"}
    }


def _parted(found: str) -> tuple[str, str]:
    """Return one of the ``differences`` as two texts."""
    what, _, values = found.partition(": ")
    old, _, new = values.partition(" is now ")
    what = (
        "outcomes of version"
        if what == "code"
        else what.removeprefix("scores.").replace(".versions.", " by ")
    )
    return f"{what} {old}", f"{what} {new or 'other values'}"


def _option(name: str, value: object, defaults: Mapping[str, object]) -> str:
    """Return a setting of a recipe as the option that sets it."""
    if name == "precision":
        return f"--precision {value or 'fp32'}"
    option = f"--{name.replace('_', '-')}"
    if name == "stages":
        return f"stages {canonical(value)}" if value else "no stages"
    if isinstance(value, bool):
        return option if value else f"no {option}"
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    if value in ("", None, []):
        return f"no {option}"
    return f"{option} {quote(text)}" + (" (the default)" if value == defaults.get(name) else "")


def _named(name: str, value: object, other: object) -> str:
    if name == "quarantine":
        return f"--quarantine {quote(str(value))}" if value else "no --quarantine"
    urls, others = (each if isinstance(each, list) else [] for each in (value, other))
    only = [url for url in urls if url not in set(map(str, others))]
    example = f", among them {only[0]}" if only else ""
    return f"{how_many(len(urls), 'shard')}{example}"


class LeftOver(NamedTuple):
    """The shards of a run that need not be processed, or not as a whole."""

    done: dict[str, ShardRecord]
    # Names of shards whose ledgers have some of the scores.
    fewer: list[str]
    # Other finished shards, and why they must be redone.
    changed: list[str]


class RunRecord(OutputRecord[ShardRecord]):
    """The record of a run in ``run.json`` and ``manifest.jsonl``.

    ``identity``: the digest of everything that determines the result; shards with another one are
    processed again.
    """

    # Workers of a killed run take a moment to notice.
    patience = 5.0

    def __init__(self, layout: Layout, kind: str, part: tuple[int, int] = (0, 1)) -> None:
        super().__init__(layout.folder, kind, "", ShardRecord, part=part, names=("run", MANIFEST))
        self.layout, self.identity = layout, ""

    def left(
        self,
        shards: Sequence[tuple[int, Shard, str]],
        asked: Mapping[str, object],
        *,
        compares: bool = False,
    ) -> LeftOver:
        """Return which of the shards (number, url, name) are done.

        ``asked``: the request. ``compares``: its scores compare samples, so that a ledger depends
        on all others.
        """
        self.read()
        found = LeftOver({}, [], [])
        for number, url, name in shards:
            line = self.lines.get(name)
            if line is None:
                continue
            origin = partial(_origin, number, url)
            done, reason = self.finished_line(name, partial(origin, self.identity))
            if line.recipe != self.identity and asked.get("kind") == "measure":
                there, other = self.finished_line(name, partial(origin, line.recipe))
                about = read_about(self.layout.ledger(name)) if there is not None else {}
                if there is not None and can_grow(about, asked):
                    required, stored = set(scores_of(asked)), set(scores_of(about))
                    if required < stored and not compares:
                        # It stays as it is, with more scores than are requested now.
                        done = replace(there, recipe=self.identity)
                        self.add(done)
                    elif required != stored:
                        found.fewer.append(name)
                        continue
                reason = other or reason
            if done is not None:
                found.done[name] = done
            else:
                found.changed.append(f"{url}: {reason}")
        return found

    @property
    def costs_path(self) -> Path:
        """The file with what models took; each slice has its own."""
        return self.layout.inside / f"{part_name(COSTS, self.part)}.json"

    def all_paths(self) -> Iterator[Path]:
        """Yield the files that outputs may have, under the names of an earlier run."""
        before = self.options or {}
        there = as_it_was(self.layout, before)
        for name in sorted(self.outputs):
            yield from (
                there.tar(name),
                there.ledger(name),
                there.quarantine(name),
                there.reasons(name),
            )
        yield from (self.layout.scored.inside / "ledger").glob("*.parquet")

    def files(self, line: ShardRecord) -> Iterator[tuple[Path, Identity]]:
        """Yield the files of a finished shard with their identity."""
        layout = self.layout
        if line.output is not None:
            yield layout.tar(line.name), line.output
        if line.quarantine is not None:
            yield layout.quarantine(line.name), line.quarantine
        yield layout.ledger(line.name), line.ledger
        if line.quarantine is not None:
            yield layout.reasons(line.name), MUST_EXIST

    def samples(self, done: Sequence[ShardRecord]) -> dict[str, int]:
        """Return the samples of all tars."""
        return {record.name: record.counted for record in done if record.output is not None}

    def is_current(self, line: ShardRecord) -> bool:
        """Return whether the results of a shard are of this run."""
        return line.recipe == self.identity

    def keeps(self, options: Mapping[str, object]) -> bool:
        """Return whether the folder holds this run."""
        return self.options is not None and not differ(self.options, options)

    def refuse_other(self, options: Mapping[str, object]) -> None:
        """Raise Differs if the folder holds a different run; ledgers can get more scores."""
        before = self.options
        if before is None or self.keeps(options):
            return
        # Another slice may still compute the scores of the earlier run.
        alone = self.is_alone or set(scores_of(before)) <= set(scores_of(options))
        if not (grows(before, options) and alone):
            raise Differs(self.folder, before, options)

    def refuse_existing(self, names: Sequence[str], options: Mapping[str, object]) -> None:
        """Raise FileExistsError if a file to be written exists, or is an input."""
        if self.options is None:
            refuse(self.layout, options)

    def output_folders(self) -> Iterable[Path]:
        """Return the folders of outputs."""
        return [self.folder, *filter(None, [self.layout.quarantine_folder])]

    def scratch(self) -> Iterable[Path]:
        """Return the folders of unpacked shards, and of values between two passes."""
        return [self.layout.spool, self.layout.resolved_folder]

    def await_workers(self) -> None:
        """Wait until all workers of a run, or of a slice, have ended on all machines. Raises Busy."""
        for path in (
            sorted(self.layout.inside.glob("lock*.workers"))
            if self.is_alone
            else [self.layout.workers_lock(*self.part)]
        ):
            if path.exists():
                Lock(path, patience=60).close()

    def request_to_dict(self) -> dict[str, object]:
        """Return the request."""
        found: dict[str, object] = json.loads(json.dumps(self.options, sort_keys=True))
        return found

    def request_from_dict(self, request: dict[str, Any]) -> tuple[dict[str, Any], Iterable[object]]:
        """Read the request. Raises KeyError, TypeError, ValueError."""
        if not all(isinstance(request[name], list) for name in ("names", "urls")):
            raise ValueError("not a request")
        return request, request["names"]

    def remove(self) -> None:
        """Remove all files of the outputs, and those of the first of two passes."""
        super().remove()
        for path in self.layout.costs():
            path.unlink(missing_ok=True)
        # Only this run works in it.
        shutil.rmtree(self.layout.scored.folder, ignore_errors=True)

    def why(self, name: str, before: Any, now: object) -> str:
        """Return why a shard is processed again."""
        if name == "from":
            return f"its output was made from {before[1]}"
        if name == "recipe":
            # A changed recipe was already refused.
            return "its scores were computed again"
        return f"the input changed ({'; '.join(differences(before, now))})"


def _origin(number: int, url: Shard, recipe: str) -> dict[str, object]:
    return {"from": [number, url], "recipe": recipe, "input": input_identity(url)}


def as_it_was(layout: Layout, before: Mapping[str, object]) -> Layout:
    """Return the layout of an earlier run: another folder for its quarantine."""
    aside = before.get("quarantine")
    return replace(
        layout, quarantine_folder=layout.folder / aside if isinstance(aside, str) else None
    )
