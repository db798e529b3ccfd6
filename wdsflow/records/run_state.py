"""The state of a run, or of a slice of one: who works on it, by which command, and how it ended.

The file is written when the run begins, touched every few seconds, and written again when the run
ends before all outputs of all slices are done. It is removed when they are. ``wdsflow status``
reads it, without a lock.
"""

import json
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from wdsflow.shards.atomic import write_file

from .object_store.store_lock import BEAT
from .process_identity import this_process
from .unfinished import command_now

# ``ended`` of a slice whose outputs are done.
DONE = "done"
PREFIX = "state-"


@dataclass(frozen=True)
class RunState:
    """The contents of the file.

    Attributes:
        index, count: of the slice.
        command: the command line that resumes it, in the folder ``place``; "" if a program called
            it.
        process: the one that works, as ``this_process`` describes it.
        identity: decides which lines are of this run.
        ended: ``DONE``, or why it ended; "" if it works, or was killed.
    """

    run: str
    index: int
    count: int
    command: str = field(default_factory=command_now)
    place: str = field(default_factory=os.getcwd)
    process: dict[str, object] = field(default_factory=this_process)
    identity: str = ""
    ended: str = ""


def part_name(name: str, part: tuple[int, int]) -> str:
    """Return the name of a slice's own file; that of the whole run if there are no slices."""
    index, count = part
    return name if count == 1 else f"{name}-{index:05d}-of-{count:05d}"


def read_states(inside: Path, stem: str) -> list[tuple[RunState, Path]]:
    """Return the states of a run and its slices, ordered by start time.

    A file that is removed meanwhile is no error.
    """
    states = []
    for path in inside.glob(f"{PREFIX}{stem}*.json"):
        with suppress(FileNotFoundError, ValueError, TypeError):
            state = RunState(**json.loads(path.read_bytes()))
            states.append((state, path))
    return sorted(states, key=lambda item: str(item[0].process.get("since")))


class StateFile:
    """The state file of a running command.

    ``stem`` is the name of its record. Its methods raise OSError.
    """

    def __init__(self, inside: Path, stem: str, run: str, part: tuple[int, int]) -> None:
        self.path = inside / f"{PREFIX}{part_name(stem, part)}.json"
        self._stem = stem
        self._part = part
        self._run = run
        self._state: RunState | None = None
        self._closed = threading.Event()

    def begin(self) -> None:
        """Write the file, and touch it until ``close``.

        A run without slices first removes the files of slices, whose work is now its own.
        """
        if self._part[1] == 1:
            self.forget()
        self._state = RunState(self._run, *self._part)
        self.update()
        threading.Thread(target=self._touch_until_closed, daemon=True, name="wdsflow-beat").start()

    def update(self, *, identity: str | None = None, ended: str = "") -> None:
        """Write the file again, with another ``identity`` if one is given."""
        if self._state is None:
            return
        if identity is None:
            identity = self._state.identity
        self._state = replace(self._state, identity=identity, ended=ended)
        write_file(self.path, json.dumps(asdict(self._state)).encode() + b"\n")

    def end(self, remaining: Sequence[str], why: str) -> None:
        """Note the end of a run after which outputs are missing.

        Args:
            remaining: those that this slice did not write; others are the work of other slices.
            why: the reason; "" if there is no other than that the run ended.
        """
        if remaining:
            self.update(ended=f"{why or 'not written'}, such as {remaining[0]}")
        else:
            self.update(ended=DONE)

    def forget(self) -> None:
        """Remove the files of the run and of all its slices."""
        self._state = None
        for path in self.path.parent.glob(f"{PREFIX}{self._stem}*.json"):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Touch it no longer."""
        self._closed.set()

    def _touch_until_closed(self) -> None:
        """Show machines that do not share locks that the run lives."""
        while not self._closed.wait(BEAT):
            # The next beat tries again.
            with suppress(OSError):
                os.utime(self.path)
