"""The record of a command in its output folder: an interrupted run resumes, and is never mixed with other options."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from wdsflow.shards.atomic import naming, remove_stale, write_file
from wdsflow.shards.folder_lock import Lock
from wdsflow.shards.shard_endings import SUFFIXES
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import SourceError, local_file
from wdsflow.shards.unfinished import INSIDE, begin_shards, earlier_counts, end_shards, forget_shards, undo_begin
from wdsflow.text.shell import quote_path

Line = dict[str, Any]


class OtherOptions(ValueError):
    """A folder holds shards that were written with other options; ``differences`` names them."""

    def __init__(self, folder: Path, did: str, differences: list[str]) -> None:
        super().__init__(f"{folder} holds shards {did} with other options: {'; '.join(differences)}")
        self.differences = differences


class OutputRecord:
    """Locks a folder for one run of a command. Use as a context manager.

    ``KIND.json`` has the options, and the names of all outputs that were ever begun: what exists under such a name is
    ours. ``KIND.jsonl`` has a line for each finished shard.

    Args:
        folder: created if it does not exist.
        kind: the command.
        did: its past participle, for messages.
        reasons: for each value that decides an output, what is said if it is another now; ``{}`` is the old value.
        is_whole: raises ValueError, TypeError, KeyError or RuntimeError if the report of a line cannot be used.

    Raises:
        Busy: another run works in the folder.
        FileExistsError: there is something else in place of the folder, or its record cannot be read.
    """

    def __init__(
        self,
        folder: Path,
        kind: str,
        did: str,
        reasons: Mapping[str, str],
        is_whole: Callable[[dict[str, Any]], object] = lambda report: None,
    ) -> None:
        need_folder(folder)
        self.folder, self._inside = folder, folder / INSIDE
        self._kind, self._did, self._reasons, self._is_whole = kind, did, reasons, is_whole
        self._asked, self._done = self._inside / f"{kind}.json", self._inside / f"{kind}.jsonl"
        self._is_new = not folder.exists()
        self._inside.mkdir(parents=True, exist_ok=True)
        self._lock = Lock(self._inside / "lock", patience=1)
        self._file = -1
        self._is_marked = False
        self.stale = 0  # temporary files of killed runs that were removed
        self.options: dict[str, Any] | None = None  # of the shards that are there
        self.outputs: frozenset[str] = frozenset()
        self._lines: dict[str, Line] = {}

    def __enter__(self) -> "OutputRecord":  # noqa: PYI034 - Self needs Python 3.11
        try:
            self.stale = self._remove_stale()
            self.options, self.outputs = self._read_asked()
            self._lines = self._read_lines()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._file >= 0:
            os.close(self._file)
        with suppress(OSError):  # the error that ended the run counts
            self._remove_stale()
            if self._is_marked and not self._has_output():
                self.clear()
                undo_begin(self.folder)
        self._lock.remove()
        self._lock.close()
        with suppress(OSError):  # a run that was refused, or wrote nothing, leaves no folder
            self._inside.rmdir()
            if self._is_new:
                self.folder.rmdir()

    @property
    def is_empty(self) -> bool:
        """Whether no output was ever finished."""
        return not self._lines

    def clear(self) -> None:
        """Remove what earlier runs of this command wrote, and nothing else."""
        for name in self.outputs:
            (self.folder / name).unlink(missing_ok=True)
        for path in (self._asked, self._done):
            path.unlink(missing_ok=True)
        self.options, self.outputs, self._lines = None, frozenset(), {}

    def begin(self, options: Mapping[str, Any], names: Iterable[str], *, force: bool = False) -> None:
        """Note what is to be written, before the first file is.

        Args:
            options: what decides the outputs, by flags of the command line.
            names: all outputs.
            force: replace what is there, whatever wrote it.

        Raises:
            OtherOptions: the folder holds shards that were written with others.
            FileExistsError: an output exists that no run of this command wrote.
        """
        names = list(names)
        for name in names:
            if not force and name not in self.outputs and os.path.lexists(self.folder / name):
                raise FileExistsError(
                    f"{self.folder / name} exists already, and no {self._kind} wrote it: choose another folder"
                )
        if not force:
            self.refuse_other(options)
        self.options, self.outputs = dict(options), self.outputs | set(names)
        asked = {"options": self.options, "outputs": sorted(self.outputs)}
        write_file(self._asked, json.dumps(asked, indent=1).encode() + b"\n")
        if self.outputs:
            begin_shards(self.folder, self._kind, len(names))
            self._is_marked = True
        self._write_lines()  # without the half line of a run that was killed
        self._file = os.open(self._done, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def refuse_other(self, options: Mapping[str, Any]) -> None:
        """Raise OtherOptions if the folder holds shards that were written with other options than these."""
        if self.options is not None and self.options != options:
            raise OtherOptions(self.folder, self._did, list(_differences(self.options, options)))

    def refuse_company(self) -> None:
        """Raise FileExistsError if the folder holds shards or counts that no run of this command wrote.

        Readers that take all shards of the folder would get samples twice, or others.
        """
        counts = ("sizes.json", "__len__") if self.options is None else ()
        for path in sorted(self.folder.iterdir()):
            shard = path.name.lower().endswith(SUFFIXES) and path.name not in self.outputs
            if shard or path.name in counts:
                raise FileExistsError(
                    f"{path} exists already, and no {self._kind} wrote it: a reader of the folder would take both;"
                    " choose another folder"
                )

    def finished(self, name: str, made_from: Callable[[], Mapping[str, Any]]) -> tuple[dict[str, Any] | None, str]:
        """Return the report of an output that is done already, or None and, if it was done, why that does not count."""
        line = self._lines.get(name)
        if line is None:
            return None, ""
        reason = self._changed(line, self.folder / name, made_from)
        return (None, reason) if reason else (line["report"], "")

    def add(self, name: str, made_from: Mapping[str, Any], report: Mapping[str, Any], *, written: bool = True) -> None:
        """Note a finished output, by what decides it; ``written``: it is a file. Raises OSError."""
        there = fingerprint(str(self.folder / name)) if written else None
        line = {"output": name, "made_from": made_from, "written": there, "report": report}
        self._lines[name] = json.loads(json.dumps(line))
        with naming(self._done):
            os.write(self._file, _line(line))
            os.fsync(self._file)

    @property
    def names(self) -> list[str]:
        """All outputs that have a line."""
        return list(self._lines)

    def forget(self, name: str) -> None:
        """Leave out the line of an output that was removed, from ``finish`` on."""
        self._lines.pop(name, None)

    def finish(self, order: Sequence[str], samples: Mapping[str, int] | None = None) -> None:
        """End a run that did all there was to do, and write how many ``samples`` its shards have. Raises OSError.

        Lines get the order of the outputs: an interrupted run leaves the bytes of one that was not. Where no shard is
        there, nothing is left that a reader or a run would take for one.
        """
        places = {name: place for place, name in enumerate(order)}
        self._lines = dict(sorted(self._lines.items(), key=lambda item: (places.get(item[0], -1), item[0])))
        self._write_lines()
        if not self._is_marked:
            return
        if self._has_output():
            end_shards(self.folder, dict(sorted((earlier_counts(self.folder) | dict(samples or {})).items())))
        else:
            self.clear()
            forget_shards(self.folder)
        self._is_marked = False

    def _remove_stale(self) -> int:
        return remove_stale(self.folder) + remove_stale(self._inside)

    def _has_output(self) -> bool:
        return any((self.folder / name).exists() for name in self.outputs)

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
                # Not whole: the output is written again.
                with suppress(ValueError, TypeError, KeyError, AttributeError, RuntimeError):
                    line = json.loads(text)
                    self._is_whole(line["report"])
                    found[_inside(line["output"])] = line
        return found

    def _changed(self, line: Line, path: Path, made_from: Callable[[], Mapping[str, Any]]) -> str:
        try:
            before, now = line["made_from"], json.loads(json.dumps(made_from()))
            for name in now:
                if before[name] != now[name]:
                    return self._reasons[name].format(before[name])
            return "" if line["written"] == _found(path) else f"{path} was changed since it was written"
        except SourceError as error:
            return f"it cannot be read now: {error}"
        except KeyError:
            return "its record is not whole"


def is_as_written(folder: str | os.PathLike[str], kind: str, names: Iterable[str]) -> bool:
    """Return whether runs of a command wrote all of these files of a folder, and nothing has changed them since."""
    written = dict[str, object]()
    with suppress(OSError):
        for text in Path(folder, INSIDE, f"{kind}.jsonl").read_bytes().splitlines():
            with suppress(ValueError, TypeError, KeyError, RecursionError):
                line = json.loads(text)
                written[line["output"]] = line["written"]
    try:
        return all(written.get(name) == _found(Path(folder, name)) for name in names)
    except SourceError:
        return False


def need_folder(folder: Path) -> None:
    """Raise FileExistsError if no folder can be made there: a file has its name, or a link that leads nowhere."""
    for each in (folder, *folder.parents):
        if os.path.isdir(each):
            return
        if os.path.islink(each) and not os.path.exists(each):
            there = os.path.realpath(each)
            create = "" if os.path.islink(there) else f", or create it: mkdir -p {quote_path(there)}"
            raise FileExistsError(f"{each} is a link that leads nowhere: choose another folder{create}")
        if each == folder and os.path.lexists(each):
            raise FileExistsError(f"{folder} is a file: choose a folder for the output")


def refuse_inputs(urls: Iterable[str], paths: Iterable[Path]) -> None:
    """Raise FileExistsError if one of the files that would be written or removed is an input."""
    local = (local_file(url) for url in urls)
    inputs = {os.path.realpath(path) for path in local if path is not None}
    for path in paths:
        if os.path.realpath(path) in inputs:
            raise FileExistsError(f"{path} is an input: choose another folder for the output")


def _inside(name: str) -> str:
    """Return the name of an output, which may be in a folder of the output folder, but not outside."""
    path = Path(name)
    return path.name if path.is_absolute() or ".." in path.parts else name


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
