"""A table on the disk in which rows are looked up by the value of one column, whatever its size."""

import base64
import json
import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple

from wdsflow.shards.atomic import naming, write_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]

ABSENT = -1  # in place of a row
Ambiguous = Literal["refuse", "first", "drop", "each"]
Batch = tuple[Sequence[str | None], Sequence[Sequence[Any]]]
"""Values to join on, and the row of each: its other values."""

_FORMAT = 1
_PARTS = 256  # files that the index is sorted by
_IN_MEMORY = 1 << 19  # rows of the index that wait to be sorted
_WINDOW, _GAP = 4 << 20, 64 << 10  # bytes of rows that are read at once; bytes between rows that are read as well
_FEW = 1 << 20  # rows whose index may stay in memory
_AT_ONCE = 4096  # rows that are read in one step, at most
_NAMES = ("rows", "ends", "hash", "more", "row")
_CODED = b"~"


class Unusable(NamedTuple):
    """A value of the table that no file can hold, and why."""

    reason: str


class FoundRows(NamedTuple):
    """For each value the number of its row, from 0, or ``ABSENT``; and whether more rows have it: the first is given."""

    rows: "Rows"
    several: "NDArray[np.bool_]"


class GraftTable:
    """Looks up rows by value. All threads can share one. Use as a context manager.

    Values are compared by a hash of 128 bits. The rows stay on the disk, in the order of the table; of the index,
    24 bytes for each row are mapped into memory.

    Attributes:
        folder: where it is.
        rows: how many there are.
        valued: how many of them have a value to join on.

    Raises:
        FileNotFoundError: the folder holds no table that was built whole.
        OSError: its files cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        import numpy as np

        self.folder = folder
        about = json.loads((folder / "about.json").read_bytes())
        if about.get("format") != _FORMAT:
            raise FileNotFoundError(f"{folder} holds a table of another version")
        self.rows, self.valued = about["rows"], about["valued"]
        self._stack = ExitStack()
        self._maps: list[mmap.mmap] = []
        try:
            self._file = os.open(folder / "rows", os.O_RDONLY | os.O_CLOEXEC)
            self._stack.callback(os.close, self._file)
            arrays = [self._mapped(folder / name) for name in _NAMES[1:]]
        except BaseException:
            self._stack.close()
            raise
        self._ends: NDArray[np.uint64] = arrays[0]
        self._hash, self._more, self._row = arrays[1], arrays[2], arrays[3]

    def _mapped(self, path: Path) -> "NDArray[np.uint64]":
        import numpy as np

        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return np.empty(0, np.uint64)
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._maps.append(mapped)
        return np.frombuffer(mapped, np.uint64)

    def find(self, values: Sequence[str | None]) -> FoundRows:
        """Return the rows that have these values in the column that is joined on; None joins nothing."""
        import numpy as np

        there = np.array([value is not None for value in values], np.bool_)
        rows, several = np.full(len(values), ABSENT, np.int64), np.zeros(len(values), np.bool_)
        wanted, more = _hashes([value for value in values if value is not None])
        first = np.searchsorted(self._hash, wanted, "left")
        count = np.searchsorted(self._hash, wanted, "right") - first
        found, twice = np.full(len(wanted), ABSENT, np.int64), np.zeros(len(wanted), np.bool_)
        (one,) = np.nonzero(count == 1)
        same = self._more[first[one]] == more[one]
        found[one[same]] = self._row[first[one[same]]]
        for at in np.nonzero(count > 1)[0].tolist():
            start, end = int(first[at]), int(first[at] + count[at])
            begin, stop = (int(np.searchsorted(self._more[start:end], more[at], side)) for side in ("left", "right"))
            if begin < stop:
                found[at], twice[at] = self._row[start + begin], stop - begin > 1
        rows[there], several[there] = found, twice
        self._release()
        return FoundRows(rows, several)

    def values_of(self, rows: "Rows") -> Iterator[list[Any] | None]:
        """Yield the values of each row, that of the join first; None for ``ABSENT``."""
        return chain.from_iterable(self.values_at_once(rows))

    def values_at_once(self, rows: "Rows") -> Iterator[list[list[Any] | None]]:
        """Yield likewise, some neighbouring rows at a time: memory is bounded, whatever their size."""
        for start in range(0, len(rows), _AT_ONCE):
            part = rows[start : start + _AT_ONCE]
            known = part.clip(0)
            ends = self._ends[known] if self.rows else known
            starts = ends * 0
            starts[known > 0] = self._ends[known[known > 0] - 1]
            places = list(zip(part.tolist(), starts.tolist(), ends.tolist(), strict=True))
            at = 0
            while at < len(places):  # as many as fit into the window, and at least one
                stop, size = at, 0
                while stop < len(places) and (stop == at or size < _WINDOW):
                    row, first, last = places[stop]
                    size += last - first if row >= 0 else 0
                    stop += 1
                yield list(self._read(places[at:stop]))
                at = stop
        self._release()

    def repeats(self) -> "tuple[Rows, Rows]":
        """Return the rows whose value another row has, too, and for each of them the first row with that value."""
        import numpy as np

        rows, firsts = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
        start = 0
        while start < len(self._hash):
            stop = min(start + _FEW, len(self._hash))
            while stop < len(self._hash) and self._hash[stop] == self._hash[stop - 1]:
                stop += 1  # rows of one value are looked at together
            part, more, row = (each[start:stop] for each in (self._hash, self._more, self._row))
            begins = np.concatenate([[True], (part[1:] != part[:-1]) | (more[1:] != more[:-1])])
            group = np.cumsum(begins) - 1
            several = np.bincount(group)[group] > 1
            rows.append(row[several])
            firsts.append(row[np.flatnonzero(begins)][group][several])
            start = stop
        self._release()
        return np.concatenate(rows).astype(np.int64), np.concatenate(firsts).astype(np.int64)

    def without(self) -> "Rows":
        """Return the rows without a value to join on. Takes a byte of memory for each row."""
        import numpy as np

        missing = np.ones(self.rows, np.bool_)
        for start in range(0, len(self._row), _FEW):
            missing[self._row[start : start + _FEW].astype(np.int64)] = False
        self._release()
        return np.flatnonzero(missing)

    def _read(self, places: Sequence[tuple[int, int, int]]) -> Iterator[list[Any] | None]:
        """Read neighbouring rows (number, first byte, byte after the last) at once, and yield them in the order given."""
        texts: dict[int, bytes] = {}
        waiting: list[tuple[int, int, int]] = []
        start = end = 0
        for place in sorted(set(places)):
            row, first, last = place
            if row < 0:
                continue
            if waiting and (first - end > _GAP or last - start > _WINDOW):
                self._fetch(waiting, start, end, texts)
                waiting = []
            start = start if waiting else first
            waiting.append(place)
            end = last
        if waiting:
            self._fetch(waiting, start, end, texts)
        decoded = iter(_all_decoded([texts[row] for row, _, _ in places if row >= 0]))
        for row, _, _ in places:
            yield None if row < 0 else next(decoded)

    def _fetch(self, waiting: Iterable[tuple[int, int, int]], start: int, end: int, texts: dict[int, bytes]) -> None:
        data = b""
        while len(data) < end - start and (more := os.pread(self._file, end - start - len(data), start + len(data))):
            data += more
        if len(data) < end - start:
            raise OSError("the table is cut: it was changed while it was read")
        for row, first, last in waiting:
            texts[row] = data[first - start : last - start]

    def _release(self) -> None:
        """Let the system take back what was read of a large index."""
        if self.rows > _FEW and hasattr(mmap, "MADV_DONTNEED"):
            for mapped in self._maps:
                mapped.madvise(mmap.MADV_DONTNEED)

    def __enter__(self) -> "GraftTable":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def build_table(folder: Path, batches: Iterable[Batch]) -> GraftTable:
    """Write a table into a folder, and open it. Raises OSError as the disk.

    What is there is replaced. A build that is interrupted leaves no table that can be opened.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    with naming(folder), ExitStack() as stack:
        builder = _Builder(folder, stack)
        for joins, rows in batches:
            builder.add(joins, rows)
        builder.finish()
    about = {"format": _FORMAT, "rows": builder.rows, "valued": builder.valued}
    write_file(folder / "about.json", json.dumps(about).encode())
    return GraftTable(folder)


class _Builder:
    """Appends rows to a file, and sorts their index: in memory, or part by part where it is large."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.rows = self.valued = 0
        self._folder, self._stack = folder, stack
        self._files = {name: stack.enter_context(open(folder / name, "wb")) for name in _NAMES}  # noqa: SIM115
        self._parts: list[BinaryIO] = []
        self._pending: list[NDArray[np.uint64]] = []
        self._waiting = self._size = 0

    def add(self, joins: Sequence[str | None], rows: Sequence[Sequence[Any]]) -> None:
        """Append rows."""
        import numpy as np

        texts = [_coded(join, row) for join, row in zip(joins, rows, strict=True)]
        ends = np.cumsum([self._size, *map(len, texts)], dtype=np.uint64)[1:]
        self._files["rows"].writelines(texts)
        self._files["ends"].write(ends.tobytes())
        self._size = int(ends[-1]) if len(ends) else self._size
        there = [number for number, join in enumerate(joins, self.rows) if join is not None]
        index = np.empty((len(there), 3), np.uint64)
        index[:, 0], index[:, 1] = _hashes([join for join in joins if join is not None])
        index[:, 2] = there
        self.rows, self.valued = self.rows + len(joins), self.valued + len(there)
        self._pending.append(index)
        self._waiting += len(there)
        if self._waiting >= _IN_MEMORY:
            self._spill()

    def finish(self) -> None:
        """Write the sorted index, and close all files."""
        import numpy as np

        if self._parts:
            self._spill()
            for part in self._parts:
                part.seek(0)
                self._write_sorted(np.frombuffer(part.read(), np.uint64).reshape(-1, 3))
                part.close()
                os.unlink(part.name)
        else:
            self._write_sorted(self._taken())
        self._stack.close()

    def _taken(self) -> "NDArray[np.uint64]":
        import numpy as np

        found = np.concatenate([np.empty((0, 3), np.uint64), *self._pending])
        self._pending, self._waiting = [], 0
        return found

    def _spill(self) -> None:
        import numpy as np

        if not self._parts:
            names = [self._folder / f"part-{number}" for number in range(_PARTS)]
            self._parts = [self._stack.enter_context(open(name, "w+b", buffering=0)) for name in names]  # noqa: SIM115
        index = self._taken()
        part = (index[:, 0] >> np.uint64(56)).astype(np.int64)
        index = index[np.argsort(part, kind="stable")]
        borders = np.searchsorted(np.sort(part), np.arange(_PARTS + 1))
        for number, file in enumerate(self._parts):
            rest = memoryview(index[borders[number] : borders[number + 1]].tobytes())
            while rest:
                rest = rest[file.write(rest) :]

    def _write_sorted(self, index: "NDArray[np.uint64]") -> None:
        import numpy as np

        index = index[np.lexsort((index[:, 2], index[:, 1], index[:, 0]))]
        for number, name in enumerate(_NAMES[2:]):
            self._files[name].write(np.ascontiguousarray(index[:, number]).tobytes())


def _hashes(values: Sequence[str]) -> "NDArray[np.uint64]":
    """Return the two halves of the hash of each value, as two arrays."""
    import numpy as np
    from xxhash import xxh3_128_digest

    data = b"".join([xxh3_128_digest(value.encode()) for value in values])
    return np.frombuffer(data, ">u8").reshape(-1, 2).astype(np.uint64).T


def _coded(join: str | None, row: Sequence[Any]) -> bytes:
    import orjson

    try:
        return orjson.dumps([join, *row], default=_as_text, option=orjson.OPT_PASSTHROUGH_SUBCLASS)
    except TypeError:  # bytes, lone surrogates, integers beyond 64 bits
        return _CODED + json.dumps([join, *map(_single, row)]).encode()


def _as_text(value: Any) -> str:
    if isinstance(value, (bytes, str, int)):
        raise TypeError
    return str(value)


def _no_bytes(value: Any) -> str:
    """Return dates and the like as text. Raises TypeError for bytes in a list."""
    if isinstance(value, (bytes, bytearray)):
        raise TypeError
    return str(value)


def _single(value: Any) -> list[Any]:
    if isinstance(value, bytes):
        return ["bytes", base64.b64encode(value).decode()]
    try:
        text = json.dumps(value, ensure_ascii=False, default=_no_bytes, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:
        return ["unusable", "text that UTF-8 cannot hold"]
    except (ValueError, TypeError, RecursionError):
        return ["json", None] if isinstance(value, float) else ["unusable", "a value that JSON cannot hold"]
    return ["json", json.loads(text)]


def _all_decoded(texts: Sequence[bytes]) -> Iterable[list[Any]]:
    import orjson

    try:
        found: list[list[Any]] = orjson.loads(b"[%b]" % b",".join(texts))
    except ValueError:  # some are coded in another way
        return map(_decoded, texts)
    return found


def _decoded(text: bytes) -> list[Any]:
    import orjson

    if not text.startswith(_CODED):
        found: list[Any] = orjson.loads(text)
        return found
    join, *values = json.loads(text[1:])
    decoded = (
        base64.b64decode(value) if kind == "bytes" else Unusable(value) if kind == "unusable" else value
        for kind, value in values
    )
    return [join, *decoded]
