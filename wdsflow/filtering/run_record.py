"""The record of ``filter`` and ``measure``.

It has several files per shard, slices, and ledgers that get more scores.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from wdsflow.filtering.ledger.ledger_metadata import read_metadata
from wdsflow.filtering.recipe.recipe import canonical_json, differences
from wdsflow.joining.recorded_join import OPTIONS, join_of, options_to_record
from wdsflow.records.file_identity import MUST_EXIST, Identity
from wdsflow.records.folder_lock import Lock
from wdsflow.records.output_record import OutputRecord
from wdsflow.records.run_folder import COSTS, MANIFEST, Layout, ShardRecord, refuse_existing
from wdsflow.records.run_state import part_name
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import joined_identity

from .extendable_ledgers import can_add_scores, can_extend_ledger, scores_of
from .joined_samples import JoinedSamples
from .run_differences import Differs, are_different_runs


class FinishedShards(NamedTuple):
    """What an earlier run has left of the shards of a run.

    Attributes:
        done: the shards that need not be processed, by name.
        fewer: the names of shards whose ledgers have some of the scores.
        changed: other shards that were finished, and why they must be processed again.
    """

    done: dict[str, ShardRecord]
    fewer: list[str]
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
        self.layout = layout
        self.identity = ""

    def finished(
        self,
        shards: Sequence[tuple[int, Shard, str]],
        request: Mapping[str, object],
        join: Callable[[Shard], str],
    ) -> FinishedShards:
        """Return which of the shards (number, url, name) are done for a request.

        ``join`` returns the digest of the table whose fields the samples of a shard get.
        """
        self.read()
        finished = FinishedShards({}, [], [])
        for number, url, name in shards:
            if name not in self.lines:
                continue
            origin = partial(_origin, number, url, join(url))
            done, reason = self.finished_line(name, partial(origin, self.identity))
            recipe = self.lines[name].recipe
            if recipe != self.identity and request.get("kind") == "measure":
                # Of an earlier run with other scores.
                stored, other_reason = self.finished_line(name, partial(origin, recipe))
                available = self._extendable_scores(name, request) if stored is not None else None
                required = set(scores_of(request))
                if stored is not None and available is not None:
                    if required < available:
                        # It stays as it is, with more scores than are requested now.
                        done = replace(stored, recipe=self.identity)
                        self.add(done)
                    elif required != available:
                        finished.fewer.append(name)
                        continue
                reason = other_reason or reason
            if done is not None:
                finished.done[name] = done
            else:
                finished.changed.append(f"{url}: {reason}")
        return finished

    def _extendable_scores(self, name: str, request: Mapping[str, object]) -> set[str] | None:
        """Return the scores of the ledger of a shard, None if it cannot get those of a request."""
        metadata = read_metadata(self.layout.ledger(name))
        if not can_extend_ledger(metadata, request):
            return None
        return set(scores_of(metadata))

    @property
    def costs_path(self) -> Path:
        """The file with what models took; each slice has its own."""
        return self.layout.inside / f"{part_name(COSTS, self.part)}.json"

    def all_paths(self) -> Iterator[Path]:
        """Yield the files that outputs may have, under the names of an earlier run."""
        layout = recorded_layout(self.layout, self.options or {})
        for name in sorted(self.outputs):
            yield layout.tar(name)
            yield layout.ledger(name)
            yield layout.quarantine(name)
            yield layout.reasons(name)
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

    def can_keep_outputs(self, options: Mapping[str, object]) -> bool:
        """Return whether the folder holds this run."""
        return self.options is not None and not are_different_runs(self.options, options)

    def is_recorded(self, options: Mapping[str, object]) -> bool:
        """Return whether the stored run is this one, with the table at the same path."""
        return self.can_keep_outputs(options) and join_of(self.options or {}) == join_of(options)

    def refuse_other(self, options: Mapping[str, object]) -> None:
        """Raise Differs if the folder holds a different run; ledgers can get more scores."""
        stored = self.options
        if stored is None or self.can_keep_outputs(options):
            return
        # Another slice may still compute the scores of the earlier run.
        adds_only = set(scores_of(stored)) <= set(scores_of(options))
        if not can_add_scores(stored, options) or not (self.is_alone or adds_only):
            raise Differs(self.folder, stored, options)

    def refuse_other_join(self, join: JoinedSamples | None) -> None:
        """Raise Differs if the folder holds outputs made with another table, or with none."""
        stored = self.options
        if stored is None or self._is_idle():
            return
        request = {name: value for name, value in stored.items() if name not in ("join", OPTIONS)}
        if join is not None:
            request |= {"join": join.identity, OPTIONS: options_to_record(join.options)}
        if canonical_json(stored.get("join")) != canonical_json(request.get("join")):
            raise Differs(self.folder, stored, request)

    def refuse_existing(self, names: Sequence[str], options: Mapping[str, object]) -> None:
        """Raise FileExistsError if a file to be written exists, or is an input."""
        if self.options is None:
            refuse_existing(self.layout, options)

    def output_folders(self) -> Iterable[Path]:
        """Return the folders of outputs."""
        return [self.folder, *filter(None, [self.layout.quarantine_folder])]

    def scratch(self) -> Iterable[Path]:
        """Return the folders of unpacked shards, and of values between two passes."""
        return [self.layout.spool, self.layout.resolved_folder]

    def await_workers(self) -> None:
        """Wait until all workers of a run, or of a slice, have ended on all machines.

        Raises Busy.
        """
        locks = [self.layout.workers_lock(*self.part)]
        if self.is_alone:
            locks = sorted(self.layout.inside.glob("lock*.workers"))
        for path in locks:
            if path.exists():
                Lock(path, patience=60).close()

    def request_to_dict(self) -> dict[str, object]:
        """Return the request."""
        request: dict[str, object] = json.loads(json.dumps(self.options, sort_keys=True))
        return request

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

    def why_rewritten(self, name: str, before: Any, now: object) -> str:
        """Return why a shard is processed again."""
        if name == "from":
            return f"its output was made from {before[1]}"
        if name == "recipe":
            # A changed recipe was already refused.
            return "its scores were computed again"
        return f"the input changed ({'; '.join(differences(before, now))})"


def _origin(number: int, url: Shard, join: str, recipe: str) -> dict[str, object]:
    return {"from": [number, url], "recipe": recipe, "input": joined_identity(url, join)}


def recorded_layout(layout: Layout, request: Mapping[str, object]) -> Layout:
    """Return the layout of a recorded run, whose quarantine may be in another folder."""
    quarantine = request.get("quarantine")
    if not isinstance(quarantine, str):
        return replace(layout, quarantine_folder=None)
    return replace(layout, quarantine_folder=layout.folder / quarantine)
