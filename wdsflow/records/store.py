"""Output folders in object stores: the run works in a temporary folder, and what is finished there goes to the store.

The store gets the same files as a local folder, in an order in which a run that is killed anywhere
can be resumed from what the store has, also on another machine. At the start the working folder
gets the files inside (ledgers, lines, options) and *stubs* of all others: sparse files of the same
size, in which only the pieces are filled that ``fingerprint`` reads. So the record sees the files
that exist, and notices changed ones, without their bytes. A finished file becomes a stub, too. A
line goes to an object of its own in ``THIN.lines``; the end of a run writes them into one file, as
locally.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeVar

from wdsflow.shards.shard_identity import PIECE, piece_offsets
from wdsflow.shards.source.base import SourceError
from wdsflow.shards.source.limits import reported
from wdsflow.shards.source.remote import filesystem
from wdsflow.shards.source.retries import trying
from wdsflow.text.secrets import redact

from .store_lock import StoreLock, look_at_lock
from .unfinished import COUNTS, INSIDE, MARK

T = TypeVar("T")
U = TypeVar("U")

# Requests.
_AT_A_TIME = 8
# At a time: one holds up to 100 MB of a file.
_UPLOADS = 2
_PULLED = frozenset((".json", ".jsonl", ".parquet"))
# Folders inside that only a run in progress needs.
_SCRATCH = frozenset(("spool", "resolved", "graft", "pack-scratch", "reshard-scratch"))
_LINES = ".lines"

_TURN_REMOVED, _TURN_LINES, _TURN_LAST = 3, 4, 9


class StoreError(OSError):
    """An object store did not accept, send or remove an object. ``filename``: its url; ``strerror``: its answer."""


class _Seen(NamedTuple):
    """A file of the working folder as it is in the store."""

    inode: int
    size: int
    # Nanoseconds since 1970.
    changed: int


class Store:
    """Keeps a folder of an object store equal to a working folder. Use as a context manager: it holds the lock.

    Args:
        url: of the folder in the store.
        folder: the working folder, empty.
    """

    def __init__(self, url: str, folder: Path) -> None:
        # In messages, and in the file by which other runs see who works there.
        self.url, self.folder = redact(url.rstrip("/")), folder
        self._system, root = self._attempt(lambda: filesystem(url.rstrip("/")))
        self._root = root.rstrip("/")
        if hasattr(self._system, "max_concurrency"):
            # Parts of a file, of 50 MB each, which s3fs holds in memory.
            self._system.max_concurrency = _UPLOADS
        # The files of the store, by path.
        self._known: dict[str, _Seen] = {}
        self._stubs: set[_Seen] = set()
        # Stubs without pieces.
        self._blank: set[str] = set()
        # File with lines -> objects with lines that it has got since.
        self._lines: dict[str, set[str]] = {}
        # The kind of the fault.
        self._failed = ""

    def __enter__(self) -> "Store":  # noqa: PYI034 - Self needs Python 3.11
        self._lock = StoreLock(self._system, self._key(f"{INSIDE}/lock"), self.url, self._attempt)
        try:
            self._pull()
        except BaseException:
            self._lock.close(remove=self._failed != "io")
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.sync()
        finally:
            # Such a fault would come again, after many tries.
            self._lock.close(remove=self._failed != "io")

    def look(self) -> dict[str, Any] | None:
        """Fill the folder with the records of runs, without holding the lock; return its content and age in seconds.

        Returns None if no run holds the lock. Raises StoreError.
        """
        self._pull(
            lambda name: name.startswith(f"{INSIDE}/") and name.endswith((".json", ".jsonl"))
        )
        return self._attempt(lambda: look_at_lock(self._system, self._key(f"{INSIDE}/lock")))

    def url_of(self, path: Path) -> str:
        """Return the url of a file of the working folder, as ``objects`` does."""
        found: str = self._system.unstrip_protocol(self._key(self._name(path)))
        return found

    def recall(self, paths: Iterable[Path]) -> None:
        """Fill the pieces of stubs, from which the identity of a file is computed. Raises StoreError."""
        self._each(self._fill, [name for name in map(self._name, paths) if name in self._blank])

    def put(self, lines: Path, name: str, line: bytes, files: Iterable[Path]) -> None:
        """Upload the files of a finished output, and then its line. Raises StoreError, Busy.

        Args:
            lines: the file that the line belongs to.
            name: of the output.
            line: its line.
            files: all of its files.
        """
        new = [each for each in map(self._name, files) if self._seen(each) != self._known.get(each)]
        self._each(self._upload, new, _UPLOADS)
        stem = name.partition(".")[0]
        same = [each for each in self._known if each.rpartition("/")[2].startswith(stem)]
        # Of an earlier result.
        self._each(self._remove, [each for each in same if self._seen(each) is None])
        place = self._name(lines)
        key = self._key(f"{place.removesuffix('.jsonl')}{_LINES}/{name}.json")
        self._change(key, lambda: self._system.pipe_file(key, line))
        self._lines.setdefault(place, set()).add(key)

    def sync(self) -> None:
        """Do in the store what was done in the working folder: upload, rename and remove. Raises StoreError, Busy.

        The mark of an unfinished run comes first and goes last, options follow the removal of
        outputs that were made with others, and counts follow the outputs. So the next run can
        finish what a killed one began.
        """
        if self._failed:
            return
        there = {name: seen for name in self._files() if (seen := self._seen(name)) is not None}
        gone = {seen: name for name, seen in self._known.items() if name not in there}
        new = [name for name, seen in there.items() if seen != self._known.get(name)]
        steps: list[tuple[int, Callable[[str], object], str]] = []
        for name in new:
            before = gone.get(there[name])
            put = self._upload if before is None else partial(self._copy, before)
            steps.append((_turn(name, stays=True), put, name))
        steps += ((_turn(name, stays=False), self._remove, name) for name in gone.values())
        for lines, keys in self._lines.items():
            if lines in new or lines not in there:
                steps += ((_TURN_LINES, self._remove_key, key) for key in sorted(keys))
                self._lines[lines] = set()
        for turn in sorted({step[0] for step in steps}):
            self._each(lambda step: step[1](step[2]), [step for step in steps if step[0] == turn])

    def abort_uploads(self, paths: Iterable[Path]) -> None:
        """Abort the multipart uploads of files that a killed run began, where the store keeps and lists them."""
        if not hasattr(self._system, "call_s3"):
            return
        bucket, _, prefix = self._root.partition("/")
        ours = {self._key(self._name(path)) for path in paths}
        # It only saves space; many may write, but not list uploads.
        with suppress(Exception), reported(self.url):
            found = self._system.call_s3(
                "list_multipart_uploads", Bucket=bucket, Prefix=f"{prefix}/" if prefix else ""
            )
            for upload in found.get("Uploads") or ():
                if f"{bucket}/{upload['Key']}" in ours:
                    self._system.call_s3(
                        "abort_multipart_upload",
                        Bucket=bucket,
                        Key=upload["Key"],
                        UploadId=upload["UploadId"],
                    )

    def _pull(self, wanted: Callable[[str], bool] = lambda name: True) -> None:
        self._system.invalidate_cache()
        found = self._attempt(lambda: self._system.find(self._root, detail=True))
        if self._root in found:
            raise FileExistsError(f"{self.url} is an object: choose another place for the output")
        sizes, lines = dict[str, int](), list[str]()
        for key, about in found.items():
            name = key.removeprefix(f"{self._root}/")
            if name == key:
                raise StoreError(errno.EIO, f"the store lists {key} in it", self.url)
            if (
                not _is_safe(name)
                or not wanted(name)
                or name == f"{INSIDE}/lock"
                or about.get("type") == "directory"
            ):
                continue
            if (
                PurePosixPath(name).parent.name.endswith(_LINES)
                and INSIDE in PurePosixPath(name).parts
            ):
                lines.append(name)
            else:
                sizes[name] = int(about.get("size") or 0)
        for name in sizes:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        self._each(self._download, [name for name in sizes if _is_pulled(name)])
        for name, size in sizes.items():
            if not _is_pulled(name):
                with open(self.folder / name, "wb") as file:
                    file.truncate(size)
                self._blank.add(name)
                self._note(name, stub=True)
        self._take_lines(sorted(lines))

    def _take_lines(self, names: Sequence[str]) -> None:
        """Append the lines of a run that did not end to their file."""
        lines = self._each(
            lambda name: self._attempt(partial(self._system.cat_file, self._key(name))), names
        )
        for name, line in zip(names, lines, strict=True):
            folder = PurePosixPath(name).parent
            place = str(folder.with_name(f"{folder.name.removesuffix(_LINES)}.jsonl"))
            (self.folder / place).parent.mkdir(parents=True, exist_ok=True)
            with open(self.folder / place, "ab") as file:
                file.write(line)
            self._lines.setdefault(place, set()).add(self._key(name))

    def _files(self) -> Iterator[str]:
        """Yield the files of the working folder that belong to the outputs."""
        for place, folders, files in os.walk(self.folder):
            is_inside = Path(place).name == INSIDE
            if is_inside:
                folders[:] = [each for each in folders if each not in _SCRATCH]
            for each in files:
                if not (each.endswith(".wdsflow.tmp") or (is_inside and each.startswith("lock"))):
                    yield self._name(Path(place, each))

    def _name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _key(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _seen(self, name: str) -> _Seen | None:
        try:
            status = os.stat(self.folder / name)
        except FileNotFoundError:
            return None
        return _Seen(status.st_ino, status.st_size, status.st_mtime_ns)

    def _note(self, name: str, *, stub: bool = False) -> None:
        """Note that the store has the file as it is here."""
        if (found := self._seen(name)) is not None:
            self._known[name] = found
            if stub:
                self._stubs.add(found)

    def _download(self, name: str) -> None:
        self._attempt(
            lambda: self._system.get_file(self._key(name), str(self.folder / name)), self._key(name)
        )
        self._note(name)

    def _fill(self, name: str) -> None:
        size, key = self._known[name].size, self._key(name)
        starts = piece_offsets(size)
        ends = [min(size, start + PIECE) for start in starts]
        ask = partial(self._system.cat_ranges, [key] * len(starts), starts, ends, on_error="raise")
        found = self._attempt(ask, key) if size else [b""]
        with open(self.folder / name, "r+b") as file:
            for start, data in zip(starts, found, strict=True):
                os.pwrite(file.fileno(), data, start)
        self._blank.discard(name)
        self._note(name, stub=True)

    def _upload(self, name: str) -> None:
        path, key, seen = self.folder / name, self._key(name), self._seen(name)
        if seen is None:
            return
        if seen in self._stubs:
            raise RuntimeError(f"{path} is only the stub of an object, and would replace one")
        self._change(key, lambda: self._system.put_file(str(path), key), seen.size)
        self._note(name)
        if not _is_pulled(name):
            self._hollow(name)

    def _hollow(self, name: str) -> None:
        """Replace an uploaded file by its stub, which frees the disk."""
        path = self.folder / name
        stub = path.with_name(f"{path.name}.stub.wdsflow.tmp")
        with open(path, "rb") as file, open(stub, "wb") as new:
            size = os.fstat(file.fileno()).st_size
            new.truncate(size)
            for start in piece_offsets(size):
                os.pwrite(new.fileno(), os.pread(file.fileno(), PIECE, start), start)
        os.replace(stub, path)
        self._note(name, stub=True)

    def _copy(self, before: str, name: str) -> None:
        key = self._key(name)
        self._change(key, lambda: self._system.cp_file(self._key(before), key))
        self._note(name)

    def _remove(self, name: str) -> None:
        self._remove_key(self._key(name))
        del self._known[name]
        self._blank.discard(name)

    def _remove_key(self, key: str) -> None:
        def remove() -> None:
            with suppress(FileNotFoundError):
                self._system.rm_file(key)

        self._change(key, remove)

    def _change(self, key: str, do: Callable[[], T], size: int = 0) -> T:
        """Change the store, while the lock is held. ``size``: bytes that are sent."""
        self._lock.check()
        return self._attempt(do, key, size)

    def _attempt(self, do: Callable[[], T], key: str = "", size: int = 0) -> T:
        url = f"{self.url}{key.removeprefix(self._root)}" if key else self.url
        try:
            return trying(do, url, size)
        except SourceError as error:
            self._failed = error.kind
            raise StoreError(errno.EIO, str(error).removeprefix("no such file: "), url) from error

    @staticmethod
    def _each(do: Callable[[U], T], items: Sequence[U], at_a_time: int = _AT_A_TIME) -> list[T]:
        """Call a function for each item, several at a time; return the results in order."""
        if len(items) < 2:
            return list(map(do, items))
        pool = ThreadPoolExecutor(at_a_time)
        try:
            return list(pool.map(do, items))
        finally:
            pool.shutdown(cancel_futures=True)


def _turn(name: str, *, stays: bool) -> int:
    """Return when a file is written to the store, or removed there."""
    path = PurePosixPath(name)
    inside = path.parent.name == INSIDE
    if inside and path.name == MARK:
        return 0 if stays else _TURN_LAST
    if path.name in COUNTS:
        return 6 if stays else 7
    # Options.
    if inside and path.suffix == ".json":
        return 5 if stays else 8
    if inside and path.suffix == ".jsonl":
        return 2 if stays else _TURN_LINES
    return 2 if stays else _TURN_REMOVED


def _is_pulled(name: str) -> bool:
    path = PurePosixPath(name)
    return path.name in COUNTS or (INSIDE in path.parts and path.suffix in _PULLED)


def _is_safe(name: str) -> bool:
    """Return whether the name of an object is a path inside the folder."""
    return "\0" not in name and not {"", ".", ".."} & set(name.split("/"))
