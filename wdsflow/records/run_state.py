"""The state of a run, or of a slice of one: who works on it, by which command, and how it ended.

The file is written when the run begins, touched every few seconds, and written again when the run ends before all outputs of all
slices are done. It is removed when they are. ``wdsflow status`` reads it, without a lock.
"""

import json
import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from wdsflow.shards.atomic import write_file

from .store_lock import BEAT, this_process
from .unfinished import command_now

DONE = "done"  # ``ended`` of a slice whose outputs are done
PREFIX = "state-"


@dataclass(frozen=True)
class RunState:
    """The file. ``index`` and ``count`` are those of the slice; ``identity`` decides which lines are of this run."""

    run: str
    index: int
    count: int
    command: str = field(default_factory=command_now)
    place: str = field(default_factory=os.getcwd)
    process: dict[str, object] = field(default_factory=this_process)
    identity: str = ""
    ended: str = ""  # "": it works, or was killed

    def write(self, inside: Path, stem: str) -> None:
        """Write the file into the folder inside. Raises OSError."""
        write_file(state_path(inside, stem, (self.index, self.count)), json.dumps(asdict(self)).encode() + b"\n")


def part_name(name: str, part: tuple[int, int]) -> str:
    """Return the name of a slice's own file; that of the whole run if there are no slices."""
    return name if part[1] == 1 else "{}-{:05d}-of-{:05d}".format(name, *part)


def state_path(inside: Path, stem: str, part: tuple[int, int]) -> Path:
    """Return the file of a slice; ``stem`` is the name of its record."""
    return inside / f"{PREFIX}{part_name(stem, part)}.json"


def state_paths(inside: Path, stem: str) -> list[Path]:
    """Return the files of a run and of its slices."""
    whole = inside / f"{PREFIX}{stem}.json"
    return [*([whole] if whole.exists() else []), *sorted(inside.glob(f"{PREFIX}{stem}-*-of-*.json"))]


def read_states(paths: Iterable[Path]) -> list[tuple[RunState, Path]]:
    """Return the states that can be read; a file may be removed meanwhile."""
    found = []
    for path in paths:
        with suppress(FileNotFoundError, ValueError, TypeError, AttributeError):
            found.append((RunState(**json.loads(path.read_bytes())), path))
    return found


class Beat:
    """Touches a file every few seconds until ``close``: machines that do not share locks see that the run lives."""

    def __init__(self, path: Path) -> None:
        self._path, self._ended = path, threading.Event()
        threading.Thread(target=self._beat, daemon=True, name="wdsflow-beat").start()

    def _beat(self) -> None:
        while not self._ended.wait(BEAT):
            with suppress(OSError):  # the next beat tries again
                os.utime(self._path)

    def close(self) -> None:
        """Stop."""
        self._ended.set()


class StateFile:
    """The file of a run that works; ``stem`` is the name of its record."""

    def __init__(self, inside: Path, stem: str, run: str, part: tuple[int, int]) -> None:
        self._inside, self._stem, self._part, self._run = inside, stem, part, run
        self._state: RunState | None = None

    def begin(self) -> Beat:
        """Write the file, without those of slices whose work is that of this run now; return its beat. Raises OSError."""
        if self._part[1] == 1:
            self.forget()
        self._state = RunState(self._run, *self._part)
        self.note()
        return Beat(state_path(self._inside, self._stem, self._part))

    def note(self, *, identity: str | None = None, ended: str = "") -> None:
        """Write the file again, with another ``identity`` if one is given. Raises OSError."""
        if self._state is not None:
            known = self._state.identity if identity is None else identity
            self._state = replace(self._state, identity=known, ended=ended)
            self._state.write(self._inside, self._stem)

    def end(self, left: Sequence[str], why: str) -> None:
        """Note the end of a run that has left some outputs to others, or to the next run: ``left`` of its own. Raises OSError."""
        self.note(ended=f"{why or 'not written'}, such as {left[0]}" if left else DONE)

    def forget(self) -> None:
        """Remove the files of the run and of all its slices."""
        self._state = None
        for path in state_paths(self._inside, self._stem):
            path.unlink(missing_ok=True)
