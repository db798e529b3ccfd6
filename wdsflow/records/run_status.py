"""How far a run is, by its output folder: what each slice has done, and what has to be run again.

Nothing is locked or changed: other runs may work in the folder meanwhile.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from wdsflow.shards.scratch import scratch
from wdsflow.shards.source.base import local_folder

from .line import lines_paths, values_of
from .refusals import is_held
from .run_state import DONE, PREFIX, RunState, part_name, read_states
from .store import Store
from .store_lock import STALE, is_alive, is_here, who
from .unfinished import INSIDE, RUNS, Unfinished, unfinished_run
from .working_folder import remote_url

_COUNTS = ("samples", "kept")
Phase = Literal["done", "running", "dead", "failed", "missing"]


class NoRun(ValueError):
    """A folder has no record of a run, or a damaged one."""


@dataclass(frozen=True)
class SliceStatus:
    """A slice of a run, or all of it.

    Attributes:
        phase: done; running; dead, if it was killed; failed, if it ended before all was done; missing, if it never began.
        shards: outputs that it has to write; ``done`` of them are recorded.
        samples: of the inputs of these; ``kept`` of them are in the outputs, None if the record does not say.
        process: the one that works, or worked last. ``why``: the reason why it failed.
        command: the one that runs it again; "" if it is not known.
    """

    index: int
    phase: Phase
    shards: int
    done: int
    samples: int
    kept: int | None
    process: str
    why: str
    command: str


@dataclass(frozen=True)
class RunStatus:
    """A run, by its slices. ``merged``: all is in one record. ``identity`` decides which lines are of this run."""

    run: str
    count: int
    slices: list[SliceStatus]
    merged: bool
    identity: str

    @property
    def is_done(self) -> bool:
        """Whether all outputs of all slices are done."""
        return all(each.phase == "done" for each in self.slices)

    @property
    def summary(self) -> str:
        """How much is done, in a line."""
        if not self.total("shards"):
            return f"{self.run}: no shard yet, it reads its inputs first"
        done = sum(each.phase == "done" for each in self.slices)
        slices = f", in {done:,} of {self.count:,} slices" if self.count > 1 else ""
        return f"{self.run}: {self.total('done'):,} of {self.total('shards'):,} shards done{slices}"

    def total(self, name: str) -> int:
        """Sum a number over the slices."""
        return sum(getattr(each, name) or 0 for each in self.slices)

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        sums = {name: self.total(name) for name in ("shards", "done", "samples")}
        return {**asdict(self), "complete": self.is_done and self.merged, **sums}


def statuses(out: Path | str) -> list[RunStatus]:
    """Return how far the runs are whose outputs are in a folder, or in an object store. Raises NoRun, StoreError."""
    with _seen(out) as (inside, holder):
        stems = [("run", "manifest")] if (inside / "run.json").is_file() else []
        others = (
            path for path in sorted(inside.glob("*.json")) if not path.name.startswith(PREFIX)
        )
        stems += [(path.stem, path.stem) for path in others if path.with_suffix(".jsonl").is_file()]
        found = [_RunFiles(inside, *each, holder).status() for each in stems]
        # What index records is not planned.
        found = [each for each in found if each.total("shards")]
        found = found or [*_reading(inside, holder)]
    if not found:
        raise NoRun(f"no run of wdsflow has written to {out}")
    return found


@contextmanager
def _seen(out: Path | str) -> Iterator[tuple[Path, dict[str, Any] | None]]:
    """Yield the folder inside, or a copy without ledgers; and of a store the content of its lock, empty if there is none."""
    url = remote_url(out)
    if url is None:
        yield local_folder(out) / INSIDE, None
        return
    with scratch("status") as folder:
        yield folder / INSIDE, Store(url, folder).look() or {}


def _reading(inside: Path, holder: dict[str, Any] | None) -> Iterator[RunStatus]:
    """Yield the run that has only marked the folder: it reads its inputs, or was killed there."""
    mark = unfinished_run(inside.parent)
    if mark is None or mark.shards or mark.run not in RUNS:
        return
    works = is_held(inside / "lock") if holder is None else _works(holder)
    phase: Phase = "running" if works else "dead"
    why = "" if works else "it was killed while it read its inputs"
    everything = SliceStatus(0, phase, 0, 0, 0, None, "", why, mark.from_here(mark.words))
    yield RunStatus(mark.run, 1, [everything], merged=False, identity="")


def _works(holder: dict[str, Any]) -> bool:
    """Return whether the process that holds the lock of an object store works; ``holder``: its content, maybe empty."""
    if not holder:
        return False
    return is_alive(holder) if is_here(holder) else float(holder.get("age") or 0) < STALE


class _RunFiles:
    """The files of one record: the request, lines, and states. ``holder``: the content of the lock of an object store."""

    def __init__(self, inside: Path, asked: str, stem: str, holder: dict[str, Any] | None) -> None:
        self._inside, self._stem, self._holder, path = (
            inside,
            stem,
            holder,
            inside / f"{asked}.json",
        )
        try:
            request = json.loads(path.read_bytes())
            self._names: list[str] = request.get("names") or request["outputs"]
        except (ValueError, KeyError, AttributeError):
            raise NoRun(f"{path} is damaged") from None
        states = read_states(inside, stem)
        last = (
            states[-1][0] if states else RunState(str(request.get("kind", asked)), 0, 1, command="")
        )
        self._last, self._is_over = last, not states
        self._states = {
            state.index: (state, path) for state, path in states if state.count == last.count
        }

    def status(self) -> RunStatus:
        """Return how far it is."""
        lines, last = self._lines(), self._last
        merged = self._is_over and len(lines_paths(self._inside, self._stem)) == 1
        slices = [self._slice(index, lines) for index in range(last.count)]
        return RunStatus(last.run, last.count, slices, merged, last.identity)

    def _lines(self) -> dict[str, dict[str, int]]:
        """Return the counts in the lines of this run by output; a line that is being written is not there yet."""
        found, identity = dict[str, dict[str, int]](), self._last.identity
        for path in lines_paths(self._inside, self._stem):
            for text in path.read_bytes().split(b"\n") if path.is_file() else ():
                with suppress(ValueError, KeyError, TypeError, AttributeError):
                    line = values_of(text)
                    if not identity or line.get("recipe", identity) == identity:
                        found[line["name"]] = {
                            each: line[each] for each in _COUNTS if isinstance(line.get(each), int)
                        }
        return found

    def _slice(self, index: int, lines: dict[str, dict[str, int]]) -> SliceStatus:
        mine = self._names[index :: self._last.count]
        done = [lines[name] for name in mine if name in lines]
        samples, kept = ([line[name] for line in done if name in line] for name in _COUNTS)
        state, path = self._states.get(index, (None, None))
        phase = "done" if len(done) == len(mine) else self._phase(state, path)
        why = state.ended if state and phase == "failed" else ""
        process = who(state.process) if state and phase != "done" else ""
        counts = len(mine), len(done), sum(samples), sum(kept) if kept else None
        return SliceStatus(index, phase, *counts, process, why, self._command(index))

    def _phase(self, state: RunState | None, path: Path | None) -> Phase:
        """Return the phase of a slice whose outputs are not all done."""
        # Or what it did was for another run.
        if state is None or path is None or state.ended == DONE:
            return "missing"
        if state.ended:
            return "failed"
        # A store.
        if self._holder is not None:
            mine = self._holder.get("pid") == state.process.get("pid")
            return "running" if mine and _works(self._holder) else "dead"
        if is_here(state.process):
            return "running" if is_alive(state.process) else "dead"
        if is_held(self._inside / part_name("lock", (state.index, state.count))):
            return "running"
        # It ended meanwhile.
        with suppress(FileNotFoundError):
            return "running" if time.time() - path.stat().st_mtime < STALE else "dead"
        return "running"

    def _command(self, index: int) -> str:
        """Return the command that runs a slice again: that of the latest one, with another index."""
        last = Unfinished(self._last.run, 0, self._last.command, self._last.place)
        words = last.words
        if words and self._last.count > 1:
            words = [
                word
                for before, word in pairwise(["", *words])
                if "--shard-index" not in (before, word)
            ]
            words += ["--shard-index", str(index)]
        return last.from_here(words)
