"""Output folders in object stores.

The run works in a temporary folder, and what is finished there is uploaded to the store.

The store gets the same files as a local folder, in an order in which a run that is killed anywhere
can be resumed from what the store has, also on another machine. At the start the working folder
gets the files inside (ledgers, lines, options) and *stubs* of all others: sparse files of the same
size, in which only the pieces are filled that ``fingerprint`` reads. So the record sees the files
that exist, and notices changed ones, without their bytes. A finished file becomes a stub, too. A
line goes to an object of its own in ``THIN.lines``; the end of a run writes them into one file, as
locally.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeVar

from wdsflow.records.shard_counts import COUNTS
from wdsflow.records.unfinished import INSIDE

from .store_objects import LOCK, StoreObjects
from .store_rounds import Round, round_of_removal, round_of_write
from .stub import fill_stub, piece_ranges, replace_by_stub, write_empty_stub

T = TypeVar("T")
U = TypeVar("U")

_REQUESTS_AT_A_TIME = 8
# One holds up to 100 MB of a file.
_UPLOADS_AT_A_TIME = 2
# Files inside of which a run needs the contents.
_DOWNLOADED = frozenset((".json", ".jsonl", ".parquet"))
# Folders inside that only a run in progress needs.
_SCRATCH = frozenset(("spool", "resolved", "graft", "pack-scratch", "reshard-scratch"))
# A folder with an object for each line of a file; it has the name of the file.
_LINES = ".lines"


class Store:
    """Keeps a folder of an object store equal to a working folder.

    Use as a context manager: it holds the lock.

    Args:
        url: of the folder in the store.
        folder: the working folder, empty.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.folder = folder
        self._objects = StoreObjects(url)
        # The files of the store, by name, as they are in the working folder.
        self._stored: dict[str, _FileState] = {}
        self._stubs: set[_FileState] = set()
        # Names of stubs without pieces.
        self._empty_stubs: set[str] = set()
        # By file with lines: objects with lines that have been added to it.
        self._line_objects: dict[str, set[str]] = {}

    def __enter__(self) -> "Store":  # noqa: PYI034 - Self needs Python 3.11
        self._objects.lock()
        try:
            self._fetch(self._objects.sizes())
        except BaseException:
            self._objects.unlock()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.sync()
        finally:
            self._objects.unlock()

    def fetch_records(self) -> None:
        """Fill the folder with the records of runs, without holding the lock.

        Raises StoreError.
        """
        records = dict[str, int]()
        for name, size in self._objects.sizes().items():
            if name.startswith(f"{INSIDE}/") and name.endswith((".json", ".jsonl")):
                records[name] = size
        self._fetch(records)

    def lock_holder(self) -> dict[str, Any] | None:
        """Return who holds the lock of the folder, None if nobody does.

        ``age``: seconds since the holder last wrote it. Raises StoreError.
        """
        return self._objects.lock_holder()

    def url_of(self, path: Path) -> str:
        """Return the url of a file of the working folder, as ``objects`` does."""
        return self._objects.url_of(self._object_name(path))

    def fill_stubs(self, paths: Iterable[Path]) -> None:
        """Fill the pieces of stubs from which a file's identity is computed.

        Raises StoreError.
        """
        names = [self._object_name(path) for path in paths]
        _for_each(self._fill, [name for name in names if name in self._empty_stubs])

    def upload_output(self, lines: Path, name: str, line: bytes, files: Iterable[Path]) -> None:
        """Upload the files of a finished output, and then its line. Raises StoreError, Busy.

        Args:
            lines: the file that the line belongs to.
            name: of the output.
            line: its line.
            files: all of its files.
        """
        names = [self._object_name(path) for path in files]
        changed = [name for name in names if self._state(name) != self._stored.get(name)]
        _for_each(self._upload, changed, _UPLOADS_AT_A_TIME)
        self._remove_earlier(name)
        lines_file = self._object_name(lines)
        line_object = f"{lines_file.removesuffix('.jsonl')}{_LINES}/{name}.json"
        self._objects.write(line_object, line)
        self._line_objects.setdefault(lines_file, set()).add(line_object)

    def sync(self) -> None:
        """Repeat changes of the working folder in the store: upload, rename and remove.

        Raises StoreError, Busy.
        """
        if self._objects.fault:
            return
        local = self._local_files()
        removed = {state: name for name, state in self._stored.items() if name not in local}
        changed = [name for name, state in local.items() if state != self._stored.get(name)]
        rounds: dict[Round, list[Callable[[], None]]] = defaultdict(list)
        for name in changed:
            # A renamed file is the same as before.
            earlier = removed.get(local[name])
            if earlier is None:
                write = partial(self._upload, name)
            else:
                write = partial(self._copy, earlier, name)
            rounds[round_of_write(name)].append(write)
        for name in removed.values():
            rounds[round_of_removal(name)].append(partial(self._remove, name))
        for lines_file, line_objects in self._line_objects.items():
            if lines_file in changed or lines_file not in local:
                for name in sorted(line_objects):
                    rounds[Round.LINES_REMOVED].append(partial(self._objects.remove, name))
                self._line_objects[lines_file] = set()
        for number in sorted(rounds):
            _for_each(lambda change: change(), rounds[number])

    def abort_uploads(self, paths: Iterable[Path]) -> None:
        """Abort the multipart uploads that a killed run began.

        This applies to stores that keep and list them.
        """
        self._objects.abort_uploads(self._object_name(path) for path in paths)

    # From the store to the working folder.

    def _fetch(self, sizes: dict[str, int]) -> None:
        """Write the objects of these names into the working folder, as files or as empty stubs."""
        files = [name for name in sizes if not _is_line_object(name) and name != LOCK]
        for name in files:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        _for_each(self._download, [name for name in files if _is_downloaded(name)])
        for name in files:
            if not _is_downloaded(name):
                write_empty_stub(self.folder / name, sizes[name])
                self._empty_stubs.add(name)
                self._note_stub(name)
        self._append_lines(sorted(filter(_is_line_object, sizes)))

    def _download(self, name: str) -> None:
        self._objects.download(name, self.folder / name)
        self._note_stored(name)

    def _append_lines(self, line_objects: Sequence[str]) -> None:
        """Append the lines of a run that did not end to their file."""
        lines = _for_each(self._objects.read, line_objects)
        for name, line in zip(line_objects, lines, strict=True):
            folder = PurePosixPath(name).parent
            lines_file = str(folder.with_name(f"{folder.name.removesuffix(_LINES)}.jsonl"))
            path = self.folder / lines_file
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "ab") as file:
                file.write(line)
            self._line_objects.setdefault(lines_file, set()).add(name)

    def _fill(self, name: str) -> None:
        size = self._stored[name].size
        if size:
            starts, ends = piece_ranges(size)
            pieces = self._objects.read_ranges(name, starts, ends)
            fill_stub(self.folder / name, starts, pieces)
        self._empty_stubs.discard(name)
        self._note_stub(name)

    # From the working folder to the store.

    def _upload(self, name: str) -> None:
        path = self.folder / name
        state = self._state(name)
        if state is None:
            return
        if state in self._stubs:
            raise RuntimeError(f"{path} is only the stub of an object, and would replace one")
        self._objects.upload(path, name, state.size)
        self._note_stored(name)
        if not _is_downloaded(name):
            replace_by_stub(path)
            self._note_stub(name)

    def _copy(self, earlier: str, name: str) -> None:
        self._objects.copy(earlier, name)
        self._note_stored(name)

    def _remove(self, name: str) -> None:
        self._objects.remove(name)
        del self._stored[name]
        self._empty_stubs.discard(name)

    def _remove_earlier(self, output: str) -> None:
        """Remove the files of an earlier result of an output that this one does not have."""
        stem = output.partition(".")[0]
        files = [name for name in self._stored if PurePosixPath(name).name.startswith(stem)]
        _for_each(self._remove, [name for name in files if self._state(name) is None])

    # Files of the working folder.

    def _local_files(self) -> dict[str, "_FileState"]:
        """Return the files of the working folder that belong to the outputs."""
        states = dict[str, _FileState]()
        for name in self._local_names():
            state = self._state(name)
            # Removed meanwhile.
            if state is not None:
                states[name] = state
        return states

    def _local_names(self) -> Iterator[str]:
        for folder, subfolders, files in os.walk(self.folder):
            is_inside = Path(folder).name == INSIDE
            if is_inside:
                subfolders[:] = [name for name in subfolders if name not in _SCRATCH]
            for file in files:
                is_lock = is_inside and file.startswith("lock")
                if not is_lock and not file.endswith(".wdsflow.tmp"):
                    yield self._object_name(Path(folder, file))

    def _object_name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _state(self, name: str) -> "_FileState | None":
        try:
            status = os.stat(self.folder / name)
        except FileNotFoundError:
            return None
        return _FileState(status.st_ino, status.st_size, status.st_mtime_ns)

    def _note_stored(self, name: str) -> None:
        """Note that the store has the file as it is here."""
        state = self._state(name)
        if state is not None:
            self._stored[name] = state

    def _note_stub(self, name: str) -> None:
        """Note that the store has the object for which the stub stands."""
        state = self._state(name)
        if state is not None:
            self._stored[name] = state
            self._stubs.add(state)


class _FileState(NamedTuple):
    """What changes when a file of the working folder is written again."""

    inode: int
    size: int
    # Nanoseconds since 1970.
    changed: int


def _for_each(
    function: Callable[[U], T], items: Sequence[U], threads: int = _REQUESTS_AT_A_TIME
) -> list[T]:
    """Call a function for each item, in several threads; return the results in order."""
    if len(items) < 2:
        return [function(item) for item in items]
    pool = ThreadPoolExecutor(threads)
    try:
        return list(pool.map(function, items))
    finally:
        pool.shutdown(cancel_futures=True)


def _is_line_object(name: str) -> bool:
    path = PurePosixPath(name)
    return path.parent.name.endswith(_LINES) and INSIDE in path.parts


def _is_downloaded(name: str) -> bool:
    path = PurePosixPath(name)
    return path.name in COUNTS or (INSIDE in path.parts and path.suffix in _DOWNLOADED)
