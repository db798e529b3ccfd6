"""The record of a run in its output folder: see ``wdsflow.records``."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wdsflow.shards.atomic import write_file
from wdsflow.shards.shard import Shard

from .file_identity import Identity
from .folder_lock import Busy, Lock
from .line import Line, OneFile
from .lines_file import LinesFile, lines_paths, read_lines
from .refusals import OtherOptions, refuse_foreign_shards, refuse_inputs, require_folder
from .run_state import StateFile, part_name
from .shard_counts import COUNTS
from .tidy_folder import remove_leftovers, tidy
from .unfinished import INSIDE, MARK, begin_shards, end_shards, forget_shards, undo_begin
from .why_redone import why_redone
from .working_folder import store_of

if TYPE_CHECKING:
    from typing_extensions import Self

L = TypeVar("L", bound=Line)

# By value of a line's origin: why an output is written again.
_REASONS = {
    "code": "another wdsflow wrote it",
    "url": "its output was made from {}",
    "inputs": "the input changed",
}


class OutputRecord(Generic[L]):
    """Locks a folder for one run, and knows which of its outputs are done.

    Use as a context manager.

    Args:
        folder: created if it does not exist.
        run: the command.
        did: its past participle, for messages.
        line: reads the lines of the record.
        reasons: for values of a line's ``origin``, the message if it changed; ``{}`` is the old
            value. The code, the url and the inputs have one.
        part: index and number of slices, if several runs share the work.
        names: of our two files, without extension; by default that of the command.

    Raises:
        Busy: another run works in the folder.
        FileExistsError: the folder is a file, or its record cannot be read.
    """

    # Seconds to wait for another run to end.
    patience = 1.0

    def __init__(
        self,
        folder: Path,
        run: str,
        did: str,
        line: type[L],
        reasons: Mapping[str, str] | None = None,
        *,
        part: tuple[int, int] = (0, 1),
        names: tuple[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.inside = folder / INSIDE
        self.kind = line
        self.part = part
        self._run = run
        self._did = did
        self._reasons = {**_REASONS, **(reasons or {})}
        request_stem, self._stem = names or (run, run)
        self._request_path = self.inside / f"{request_stem}.json"
        self._lines_path = self.inside / f"{part_name(self._stem, part)}.jsonl"
        self._lines_file: LinesFile
        self._store = store_of(folder)
        self.state = StateFile(self.inside, self._stem, run, part)
        self._stack = ExitStack()
        # All outputs of this run.
        self._names: list[str] = []
        self._is_begun = False
        self._is_marked = False
        self.locks: list[Lock] = []
        # Temporary files of killed runs that were removed.
        self.stale = 0
        # Of the existing outputs.
        self.options: dict[str, object] | None = None
        # All that were ever begun: files of these names are ours.
        self.outputs: frozenset[str] = frozenset()
        # No other slice of the run works in the folder.
        self.is_alone = part[1] == 1

    @cached_property
    def lines(self) -> dict[str, L]:
        """The lines of finished outputs, by name; read when they are first needed."""
        return read_lines(lines_paths(self.inside, self._stem), self.kind, self.is_current)

    def read(self) -> None:
        """Read the record, which needs no lock."""
        self.options, self.outputs = self._read_request()
        self._forget_lines()
        if self._store:
            paths = [path for line in self.lines.values() for path, _ in self.files(line)]
            self._store.fill_stubs(paths)

    # Commands that write several files per output, or whose options grow, override these.

    def all_paths(self) -> Iterable[Path]:
        """Return all possible files of the outputs."""
        return [self.folder / name for name in sorted(self.outputs)]

    def remove(self) -> None:
        """Remove all files of the outputs."""
        for path in self.all_paths():
            path.unlink(missing_ok=True)

    def files(self, line: L) -> Iterable[tuple[Path, Identity]]:
        """Return the files of a finished output with their identity.

        The identity is None for a file that must not exist.
        """
        if isinstance(line, OneFile):
            yield self.folder / line.name, line.identity

    def samples(self, done: Sequence[L]) -> dict[str, int]:
        """Return the entries of ``sizes.json`` for finished outputs."""
        counts = dict[str, int]()
        for line in done:
            if isinstance(line, OneFile) and line.identity and (self.folder / line.name).exists():
                counts[line.name] = line.counted
        return counts

    def is_current(self, line: L) -> bool:
        """Return whether a line belongs to this run, not to an earlier one with other results."""
        return True

    def can_keep_outputs(self, options: Mapping[str, object]) -> bool:
        """Return whether the existing outputs were written with the same options."""
        return self.options == options

    def is_recorded(self, options: Mapping[str, object]) -> bool:
        """Return whether the stored options need not be written again."""
        return self.can_keep_outputs(options)

    def refuse_other(self, options: Mapping[str, object]) -> None:
        """Raise OtherOptions if the existing outputs were written with other options."""
        if self.options is not None and self.options != options and not self._is_idle():
            raise OtherOptions(self.folder, self._did, self.options, options)

    def refuse_existing(self, names: Sequence[str], options: Mapping[str, object]) -> None:
        """Raise FileExistsError if an output exists that no run of this command wrote."""
        for name in names:
            if name not in self.outputs and os.path.lexists(self.folder / name):
                raise FileExistsError(
                    f"{self.folder / name} exists already, and no {self._run} wrote it: choose another folder"
                )

    def output_folders(self) -> Iterable[Path]:
        """Return the folders of outputs, apart from those inside."""
        return [self.folder]

    def scratch(self) -> Iterable[Path]:
        """Return the folders inside that only a run in progress needs."""
        return ()

    def await_workers(self) -> None:
        """Wait until no worker of an earlier run is left. Raises Busy."""

    def request_to_dict(self) -> dict[str, object]:
        """Return the stored form of options and outputs."""
        return {"options": self.options, "outputs": sorted(self.outputs)}

    def request_from_dict(self, request: dict[str, Any]) -> tuple[dict[str, Any], Iterable[Any]]:
        """Return options and outputs from their stored form.

        Raises KeyError, TypeError, ValueError.
        """
        return request["options"], request["outputs"]

    def why_rewritten(self, name: str, before: object, now: object) -> str:
        """Return why an output is written again: a value of its origin has changed."""
        return self._reasons[name].format(before)

    # A run, from its begin to its end.

    def __enter__(self) -> "Self":
        for folder in self.output_folders():
            require_folder(folder)
        made = not self.folder.exists()
        self.inside.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            stack.callback(tidy, self.folder, self.scratch(), made=made)
            self._lock(stack)
            self.await_workers()
            stack.callback(self._remove_run_files)
            self._remove_leftovers()
            self.read()
            if self._store:
                self._store.abort_uploads(self.all_paths())
            self._stack = stack.pop_all()
        return self

    def _lock(self, stack: ExitStack) -> None:
        """Lock the folder for this run.

        A slice shares the lock with the other slices of the run, and also locks its own. Raises
        Busy.
        """
        lock = Lock(self.inside / "lock", self.patience, shared=not self.is_alone)
        self.locks = [stack.enter_context(lock)]
        if not self.is_alone:
            slice_lock = Lock(self.inside / part_name("lock", self.part), self.patience)
            self.locks.append(stack.enter_context(slice_lock))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        if kind is not None and self._is_begun:
            is_interrupt = issubclass(kind, KeyboardInterrupt)
            reason = "interrupted" if is_interrupt else str(error) or kind.__name__
            # The error that ended the run counts.
            with suppress(OSError):
                self.state.update(ended=reason)
        self._stack.close()

    def mark_reading(self) -> None:
        """Mark a folder without shards as unfinished while inputs are read.

        So a killed run is noticed. Raises OSError.
        """
        if not self.outputs:
            begin_shards(self.folder, self._run, 0)
            self.publish()
            self._stack.callback(self._forget_reading)

    def _forget_reading(self) -> None:
        if not self._is_begun:
            undo_begin(self.folder)
            self.publish()

    def begin(
        self,
        options: Mapping[str, object],
        names: Iterable[str],
        *,
        inputs: Iterable[Shard] = (),
        restart: bool = False,
        shards: bool = True,
    ) -> None:
        """Record the outputs, before the first file is written.

        Args:
            options: the values that decide the outputs, by flags of the command line.
            names: all outputs.
            inputs: their inputs, which ``restart`` never removes.
            restart: first remove files of earlier runs of this command. A run that finished nothing
                is always replaced.
            shards: outputs are shards: until all exist, ``sizes.json`` and ``__len__`` are in the
                folder inside.

        Raises:
            OtherOptions: the folder holds outputs that were written with others.
            FileExistsError: an output exists that no run of this command wrote, or an input would
                be removed.
        """
        names = list(names)
        with self.together("prepare"):
            self._prepare(options, names, inputs, restart=restart)
            if shards and self.outputs:
                begin_shards(self.folder, self._run, len(names))
                self._is_marked = True
        # Lines of slices: those of this run must follow them.
        if self.is_alone and len(lines_paths(self.inside, self._stem)) > 1:
            self._write_lines()
        self._names = names
        self._is_begun = True
        if names:
            self._stack.callback(self.state.close)
            self.state.begin()
        self._lines_file = LinesFile(self._lines_path)
        self._stack.callback(self._lines_file.close)
        self.publish()

    def _prepare(
        self,
        options: Mapping[str, object],
        names: Sequence[str],
        inputs: Iterable[Shard],
        *,
        restart: bool,
    ) -> None:
        """Refuse the outputs, or note them as those of this run."""
        if not self.is_alone:
            self.options, self.outputs = self._read_request()
        self.refuse_existing(names, options)
        if restart or (self._is_idle() and not self.can_keep_outputs(options)):
            refuse_inputs(inputs, self.all_paths())
            self.clear()
            self.refuse_existing(names, options)
        self.refuse_other(options)
        if not (self.is_recorded(options) and self.outputs.issuperset(names)):
            self.options = dict(options)
            self.outputs |= set(names)
            request = json.dumps(self.request_to_dict(), indent=1)
            write_file(self._request_path, request.encode() + b"\n")

    def refuse_foreign_shards(self) -> None:
        """Raise FileExistsError if the folder holds shards or counts of another origin.

        Files that runs of this command wrote are accepted.
        """
        refuse_foreign_shards(
            self.folder, self._run, self.outputs, COUNTS if self.options is None else ()
        )

    def finished_line(
        self, name: str, origin: Callable[[], Mapping[str, object]]
    ) -> tuple[L | None, str]:
        """Return the line of a finished output, or None and why it is done again.

        The reason is "" if the output is finished, or has not been written before.
        """
        line = self.lines.get(name)
        if line is None:
            return None, ""
        reason = why_redone(line, origin, self.files(line), self.why_rewritten)
        return (None, reason) if reason else (line, "")

    def add(self, line: L) -> None:
        """Record a finished output. Raises OSError; then it is not recorded."""
        data = line.to_line()
        if self._store:
            paths = [path for path, _ in self.files(line)]
            self._store.upload_output(self._lines_path, line.name, data, paths)
        self._lines_file.add(data)
        self.lines[line.name] = line

    def adopt(self, names: Sequence[str]) -> None:
        """Take over the outputs of slices, so that ``finish`` ends their run.

        All of these outputs must be done. Raises OSError.
        """
        self.read()
        self._names = list(names)
        self._is_marked = (self.inside / MARK).exists()

    def is_done(self, name: str) -> bool:
        """Return whether an output has a line of this run."""
        line = self.lines.get(name)
        return line is not None and self.is_current(line)

    def finish(self, why: str = "") -> bool:
        """End a run that did all its work, and write the sample counts of its shards.

        Raises OSError.

        ``why_rewritten``: the reason if an output was not written, for ``wdsflow status``.

        Lines get the order of the outputs: the file is the same after an interruption. If no shard
        exists, no files of the run are left. Returns whether all outputs of all slices are done;
        the last slice ends the run.
        """
        with self.together("finish"):
            if not self.is_alone:
                # Others have written some.
                self._forget_lines()
            done = [self.lines[name] for name in self._names if self.is_done(name)]
            is_complete = len(done) == len(self._names)
            if is_complete or self.is_alone:
                self._end(done)
            if is_complete:
                self.state.forget()
            else:
                index, count = self.part
                names = self._names[index::count]
                self.state.end([name for name in names if not self.is_done(name)], why)
        self.publish()
        return is_complete

    def publish(self) -> None:
        """Repeat the changes of the working folder in the store.

        Does nothing for a local folder. Raises OSError.
        """
        if self._store:
            self._store.sync()

    def restore_counts(self) -> None:
        """Restore the counts that ``begin`` moved: nothing was written."""
        if self._is_marked and self.is_alone:
            undo_begin(self.folder)
            self.state.forget()
            self._is_marked = False

    def clear(self, *, counts: bool | None = None) -> None:
        """Remove the files of earlier runs of this command, and nothing else.

        ``counts``: remove the counts of its shards, too; by default if there are any. Otherwise
        they are restored.
        """
        if counts is None:
            counts = self._has_files()
        self.remove()
        for path in lines_paths(self.inside, self._stem):
            path.unlink(missing_ok=True)
        self.state.forget()
        if self.outputs and counts:
            forget_shards(self.folder)
        elif self.outputs:
            undo_begin(self.folder)
        # Last: it lists the files to remove.
        self._request_path.unlink(missing_ok=True)
        self.options = None
        self.outputs = frozenset()
        self.lines = {}
        self._is_marked = False

    def _end(self, done: Sequence[L]) -> None:
        """Write the lines, in order, and the counts.

        The files of a run that has no output are removed.
        """
        self._sort_lines()
        samples = self.samples(done)
        self._write_lines()
        if not self.lines and not self.outputs:
            self.clear(counts=False)
        elif self._is_marked and not self._has_files():
            self.clear(counts=True)
        elif self._is_marked:
            end_shards(self.folder, samples)
            self._is_marked = False

    def _sort_lines(self) -> None:
        """Put the lines in the order of the outputs, after those of earlier outputs."""
        positions = {name: position for position, name in enumerate(self._names)}
        names = sorted(self.lines, key=lambda name: (positions.get(name, -1), name))
        self.lines = {name: self.lines[name] for name in names}

    def _forget_lines(self) -> None:
        """Read the lines again when they are next needed."""
        vars(self).pop("lines", None)

    def _write_lines(self) -> None:
        first, *others = lines_paths(self.inside, self._stem)
        write_file(first, b"".join(line.to_line() for line in self.lines.values()))
        for path in others:
            path.unlink(missing_ok=True)

    def _remove_run_files(self) -> None:
        """Remove files that only this run needs, and all if it finished nothing."""
        # Then the next run reports them.
        with suppress(Busy):
            self.await_workers()
        # The error that ended the run counts.
        with suppress(OSError):
            self._remove_leftovers()
            if self._is_begun and self.is_alone and self.outputs and not self._has_files():
                self.clear(counts=False)
            self.publish()

    def _remove_leftovers(self) -> None:
        """Remove leftovers of killed processes; files of living ones are locked."""
        scratch = self.scratch() if self.is_alone else ()
        self.stale += remove_leftovers(self.inside, self.output_folders(), scratch)

    def together(self, step: str) -> AbstractContextManager[object]:
        """Keep out other slices, which may do the same step at the same time."""
        if self.is_alone:
            return nullcontext()
        return Lock(self.inside / f"lock-{step}", patience=600)

    def _has_files(self) -> bool:
        return any(path.exists() for path in self.all_paths())

    def _is_idle(self) -> bool:
        """Return whether an earlier run finished nothing, so that another may replace it."""
        return self.is_alone and bool(self.outputs) and not self._has_files()

    def _read_request(self) -> tuple[dict[str, object] | None, frozenset[str]]:
        try:
            options, outputs = self.request_from_dict(json.loads(self._request_path.read_bytes()))
        except FileNotFoundError:
            return None, frozenset()
        except (ValueError, KeyError, TypeError):
            raise FileExistsError(
                f"{self._request_path} is damaged, and the files of that run are unknown: remove {self.folder},"
                " or choose another folder with -o"
            ) from None
        names = [name for name in outputs if isinstance(name, str)]
        # Nothing outside the folder is ours, whatever the file says.
        return options, frozenset(name for name in names if "/" not in name)
