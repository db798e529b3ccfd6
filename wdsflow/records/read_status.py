"""Reads how far a run is from its output folder.

Nothing is locked or changed: other runs may work in the folder meanwhile.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from wdsflow.shards.scratch import scratch
from wdsflow.shards.source.base import local_folder

from .folder_lock import is_held
from .line import values_of
from .lines_file import lines_paths
from .object_store.store import Store
from .object_store.store_lock import STALE
from .process_identity import is_alive, is_same_process, is_visible_here, process_text
from .run_state import DONE, PREFIX, RunState, part_name, read_states
from .run_status import Phase, RunStatus, SliceStatus
from .unfinished import INSIDE, RUNS, Unfinished, unfinished_run
from .working_folder import remote_url

_COUNTS = ("samples", "kept")
# Filter and measure: their request, and their lines.
_FILTER_STEMS = ("run", "manifest")


class NoRun(ValueError):
    """A folder has no record of a run, or a damaged one."""


def statuses(out: Path | str) -> list[RunStatus]:
    """Return the progress of the runs whose outputs are in a folder or object store.

    Raises NoRun, StoreError.
    """
    with _open_records(out) as (inside, store_lock):
        runs = [_RunFiles(inside, *stems, store_lock).status() for stems in _stems(inside)]
        # What index records is not planned.
        runs = [run for run in runs if run.total("shards")]
        reading = None if runs else _reading_run(inside, store_lock)
    if reading is not None:
        runs = [reading]
    if not runs:
        raise NoRun(f"no run of wdsflow has written to {out}")
    return runs


class _StoreLock(NamedTuple):
    """The lock of an output folder in an object store. ``holder``: None if no run holds it."""

    holder: dict[str, Any] | None

    def is_running(self) -> bool:
        """Return whether the process that holds the lock works."""
        if not self.holder:
            return False
        if is_visible_here(self.holder):
            return is_alive(self.holder)
        return float(self.holder.get("age") or 0) < STALE

    def is_held_by(self, process: dict[str, Any]) -> bool:
        """Return whether a process holds the lock, running or not."""
        return self.holder is not None and is_same_process(self.holder, process)


@contextmanager
def _open_records(out: Path | str) -> Iterator[tuple[Path, _StoreLock | None]]:
    """Yield the folder with the records of an output folder, and its lock if it is in a store.

    For a store, the folder is a copy without ledgers.
    """
    url = remote_url(out)
    if url is None:
        yield local_folder(out) / INSIDE, None
        return
    with scratch("status") as folder:
        store = Store(url, folder)
        store.fetch_records()
        yield folder / INSIDE, _StoreLock(store.lock_holder())


def _stems(inside: Path) -> Iterator[tuple[str, str]]:
    """Yield the names of the requests and of the lines of all records, without extension."""
    if (inside / "run.json").is_file():
        yield _FILTER_STEMS
    for path in sorted(inside.glob("*.json")):
        if not path.name.startswith(PREFIX) and path.with_suffix(".jsonl").is_file():
            yield path.stem, path.stem


def _reading_run(inside: Path, store_lock: _StoreLock | None) -> RunStatus | None:
    """Return the run that has only marked the folder, or None.

    Such a run reads its inputs, or was killed while it did.
    """
    mark = unfinished_run(inside.parent)
    if mark is None or mark.shards or mark.run not in RUNS:
        return None
    is_running = is_held(inside / "lock") if store_lock is None else store_lock.is_running()
    part = SliceStatus(
        index=0,
        phase="running" if is_running else "dead",
        shards=0,
        done=0,
        samples=0,
        kept=None,
        process="",
        why="" if is_running else "it was killed while it read its inputs",
        command=mark.command_from_here(mark.command_words),
    )
    return RunStatus(mark.run, 1, [part], merged=False, identity="")


class _RunFiles:
    """The files of one record: the request, lines, and states.

    Args:
        inside: the folder with the files.
        request_stem: name of the file with the request, without extension.
        stem: of the lines and the states.
        store_lock: the lock of an object store, None for a local folder.
    """

    def __init__(
        self, inside: Path, request_stem: str, stem: str, store_lock: _StoreLock | None
    ) -> None:
        self._inside = inside
        self._stem = stem
        self._store_lock = store_lock
        path = inside / f"{request_stem}.json"
        try:
            request = json.loads(path.read_bytes())
            self._names: list[str] = request.get("names") or request["outputs"]
        except (ValueError, KeyError, AttributeError):
            raise NoRun(f"{path} is damaged") from None
        states = read_states(inside, stem)
        self._is_over = not states
        if states:
            self._latest = states[-1][0]
        else:
            run = str(request.get("kind", request_stem))
            self._latest = RunState(run, 0, 1, command="")
        # Others are of an earlier run with another number of slices.
        self._states = dict[int, tuple[RunState, Path]]()
        for state, state_path in states:
            if state.count == self._latest.count:
                self._states[state.index] = state, state_path

    def status(self) -> RunStatus:
        """Return how far it is."""
        lines = self._read_lines()
        latest = self._latest
        slices = [self._slice(index, lines) for index in range(latest.count)]
        is_merged = self._is_over and len(lines_paths(self._inside, self._stem)) == 1
        return RunStatus(latest.run, latest.count, slices, is_merged, latest.identity)

    def _read_lines(self) -> dict[str, dict[str, int]]:
        """Return the counts in the lines of this run, by output."""
        counts = dict[str, dict[str, int]]()
        for path in lines_paths(self._inside, self._stem):
            if not path.is_file():
                continue
            for text in path.read_bytes().split(b"\n"):
                # A line that is being written is not complete yet.
                with suppress(ValueError, KeyError, TypeError, AttributeError):
                    line = values_of(text)
                    if self._is_of_this_run(line):
                        counts[line["name"]] = _counts_of(line)
        return counts

    def _is_of_this_run(self, line: dict[str, Any]) -> bool:
        identity = self._latest.identity
        return not identity or line.get("recipe", identity) == identity

    def _slice(self, index: int, lines: dict[str, dict[str, int]]) -> SliceStatus:
        names = self._names[index :: self._latest.count]
        done = [lines[name] for name in names if name in lines]
        samples = [counts["samples"] for counts in done if "samples" in counts]
        kept = [counts["kept"] for counts in done if "kept" in counts]
        state, path = self._states.get(index, (None, None))
        phase: Phase = "done" if len(done) == len(names) else self._phase(state, path)
        return SliceStatus(
            index=index,
            phase=phase,
            shards=len(names),
            done=len(done),
            samples=sum(samples),
            kept=sum(kept) if kept else None,
            process=process_text(state.process) if state and phase != "done" else "",
            why=state.ended if state and phase == "failed" else "",
            command=self._command(index),
        )

    def _phase(self, state: RunState | None, path: Path | None) -> Phase:
        """Return the phase of a slice whose outputs are not all done."""
        # If it is done, what it did was for another run.
        if state is None or path is None or state.ended == DONE:
            return "missing"
        if state.ended:
            return "failed"
        return "running" if self._is_slice_running(state, path) else "dead"

    def _is_slice_running(self, state: RunState, path: Path) -> bool:
        if self._store_lock is not None:
            return self._store_lock.is_held_by(state.process) and self._store_lock.is_running()
        if is_visible_here(state.process):
            return is_alive(state.process)
        if is_held(self._inside / part_name("lock", (state.index, state.count))):
            return True
        try:
            touched = path.stat().st_mtime
        except FileNotFoundError:
            # It ended meanwhile.
            return True
        return time.time() - touched < STALE

    def _command(self, index: int) -> str:
        """Return the command that runs a slice again.

        It is the command of the latest slice with another index.
        """
        latest = Unfinished(self._latest.run, 0, self._latest.command, self._latest.place)
        words = latest.command_words
        if not words or self._latest.count == 1:
            return latest.command_from_here(words)
        others = []
        for before, word in pairwise(["", *words]):
            if "--shard-index" not in (before, word):
                others.append(word)
        return latest.command_from_here([*others, "--shard-index", str(index)])


def _counts_of(line: dict[str, Any]) -> dict[str, int]:
    """Return the counts in a line that a status reports."""
    return {name: line[name] for name in _COUNTS if isinstance(line.get(name), int)}
