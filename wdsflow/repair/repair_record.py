"""The record of repairs in a folder: an interrupted repair resumes, and is never mixed with other options."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from wdsflow.shards.atomic import naming, remove_stale, write_file
from wdsflow.shards.folder_lock import Lock
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import SourceError

from .repair_report import ShardRepair
from .repair_shard import Job, inputs_of

INSIDE = "_wdsflow"  # no reader of shards looks into it
_CODE = 1  # version of the result of a repair

Line = dict[str, Any]


class OtherRepair(ValueError):
    """A folder holds shards that were repaired with other options; ``differences`` names them."""

    def __init__(self, folder: Path, differences: list[str]) -> None:
        super().__init__(f"{folder} holds shards repaired with other options: {'; '.join(differences)}")
        self.differences = differences


class Record:
    """Locks a folder for one repair. Use as a context manager.

    ``repair.json`` has the options, and the names of all outputs that were ever begun: what exists under such a name is
    ours. ``repair.jsonl`` has a line for each finished shard. Raises Busy if another run works in the folder.
    """

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not folder.is_dir():
            raise FileExistsError(f"{folder} is a file: choose a folder for the output")
        self.folder, self._inside = folder, folder / INSIDE
        self._is_new = not folder.exists()
        self._inside.mkdir(parents=True, exist_ok=True)
        self._lock = Lock(self._inside / "lock", patience=1)
        self._file = -1
        self.stale = 0  # temporary files of killed runs that were removed
        self.options: dict[str, Any] | None = None  # of the shards that are there
        self.outputs: frozenset[str] = frozenset()
        self._lines: dict[str, Line] = {}

    def __enter__(self) -> "Record":  # noqa: PYI034 - Self needs Python 3.11
        try:
            self.stale = remove_stale(self.folder) + remove_stale(self._inside)
            self.options, self.outputs = self._read_asked()
            self._lines = self._read_lines()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._lock.remove()
        self._lock.close()
        with suppress(OSError):  # a repair that was refused, or wrote nothing, leaves no folder
            self._inside.rmdir()
            if self._is_new:
                self.folder.rmdir()

    def clear(self) -> None:
        """Remove what earlier repairs wrote, and nothing else."""
        for name in self.outputs:
            (self.folder / name).unlink(missing_ok=True)
        for path in (self._asked, self._done):
            path.unlink(missing_ok=True)
        self.options, self.outputs, self._lines = None, frozenset(), {}

    def begin(self, options: Mapping[str, Any], names: Iterable[str], *, force: bool) -> None:
        """Note what is to be written. Raises OtherRepair unless ``force`` is given."""
        if self.options is not None and self.options != options and not force:
            raise OtherRepair(self.folder, list(_differences(self.options, options)))
        self.options, self.outputs = dict(options), self.outputs | set(names)
        asked = {"options": self.options, "outputs": sorted(self.outputs)}
        write_file(self._asked, json.dumps(asked, indent=1).encode() + b"\n")
        self._write_lines()  # without the half line of a run that was killed
        self._file = os.open(self._done, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def finished(self, job: Job) -> tuple[ShardRepair | None, str]:
        """Return the report of a shard that is done already, or None and, if it was done, why that does not count."""
        line = self._lines.get(job.target.name)
        if line is None:
            return None, ""
        reason = self._changed(line, job)
        if reason:
            return None, reason
        report = ShardRepair.from_dict(line["report"])
        report.output = str(job.target) if report.output else None
        return report, ""

    def add(self, job: Job, report: ShardRepair) -> None:
        """Note a finished shard; one that could not be read at all is tried again by the next repair."""
        if report.lost and not report.output:
            return
        line = {
            "output": job.target.name,
            "url": job.url,
            "code": _CODE,
            "moved": [job.skip, job.tail and job.tail[1]],
            "inputs": report.inputs,
            "written": fingerprint(str(job.target)) if report.output else None,
            "report": {**report.to_dict(), "output": report.output and job.target.name},
        }
        self._lines[job.target.name] = json.loads(json.dumps(line))
        with naming(self._done):
            os.write(self._file, _line(line))
            os.fsync(self._file)

    def finish(self, order: Sequence[str]) -> None:
        """Write the lines in the order of the shards: an interrupted repair leaves the bytes of one that was not."""
        places = {name: place for place, name in enumerate(order)}
        self._lines = dict(sorted(self._lines.items(), key=lambda item: (places.get(item[0], -1), item[0])))
        self._write_lines()

    @property
    def _asked(self) -> Path:
        return self._inside / "repair.json"

    @property
    def _done(self) -> Path:
        return self._inside / "repair.jsonl"

    def _write_lines(self) -> None:
        write_file(self._done, b"".join(map(_line, self._lines.values())))

    def _read_asked(self) -> tuple[dict[str, Any] | None, frozenset[str]]:
        try:
            found = json.loads(self._asked.read_bytes())
            options, outputs = found["options"], found["outputs"]
        except FileNotFoundError:
            return None, frozenset()
        except (ValueError, KeyError, TypeError):
            raise FileExistsError(f"{self._asked} cannot be read: choose another folder for the output") from None
        return options, frozenset(name for name in outputs if isinstance(name, str) and "/" not in name)

    def _read_lines(self) -> dict[str, Line]:
        found: dict[str, Line] = {}
        with suppress(FileNotFoundError):
            for text in self._done.read_bytes().splitlines():
                with suppress(ValueError, TypeError, KeyError, AttributeError):  # not whole: the shard is done again
                    line = json.loads(text)
                    ShardRepair.from_dict(line["report"]).check()
                    found[Path(line["output"]).name] = line
        return found

    def _changed(self, line: Line, job: Job) -> str:
        checks: list[tuple[str, Callable[[], bool]]] = [
            ("another wdsflow repaired it", lambda: line["code"] == _CODE),
            (f"its output was made from {line.get('url')}", lambda: line["url"] == job.url),
            ("other members move at its borders", lambda: line["moved"] == [job.skip, job.tail and job.tail[1]]),
            ("the input changed", lambda: line["inputs"] == json.loads(json.dumps(inputs_of(job)))),
            (f"{job.target} was changed since it was written", lambda: line["written"] == _found(job.target)),
        ]
        try:
            return next((reason for reason, holds in checks if not holds()), "")
        except SourceError as error:
            return f"it cannot be read now: {error}"
        except KeyError:
            return "its record is not whole"


def _found(path: Path) -> dict[str, Any] | None:
    try:
        return fingerprint(str(path))
    except SourceError as error:
        if error.kind == "missing":
            return None
        raise


def _line(line: Line) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterable[str]:
    for flag in dict.fromkeys((*old, *new)):
        before, now = _spelled(old.get(flag)), _spelled(new.get(flag))
        if before != now:
            yield f"{flag} was {before}, now it is {now}"


def _spelled(value: Any) -> str:
    if isinstance(value, list):
        value = ",".join(map(str, value))
    return "given" if value is True else str(value) if value else "not given"
