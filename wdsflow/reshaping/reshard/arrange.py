"""The places of samples, as rows of numbers in files, and their assignment to parts and outputs, in order."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wdsflow.shards.tar.tar_header import BLOCK
from wdsflow.tables import Tables
from wdsflow.text.words import how_many

from .reshard_options import HASHES, ReshardOptions, SplitPart

if TYPE_CHECKING:
    from .read_inputs import InputJob

Rows = NDArray[np.uint64]  # (samples, 4): KEY, START, END, PLACE

KEY, START, END, PLACE = range(4)  # hash of the key; first byte, byte after the last; input << 16 | number of fields
COLUMNS = 4
WIDTH = 8 * COLUMNS  # bytes of a row
PIECE = 1 << 16  # rows that are read at a time


class RowFile:
    """A file of rows, 32 bytes a sample, appended to and read in pieces. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = path.stat().st_size // WIDTH if path.exists() else 0

    def append(self, rows: Rows) -> None:
        """Add rows at the end."""
        if len(rows):
            with open(self.path, "ab") as file:
                file.write(np.ascontiguousarray(rows).data)
            self.count += len(rows)

    def read(self, start: int, end: int) -> Rows:
        """Return rows from ``start`` up to ``end``."""
        count = max(0, min(end, self.count) - start)
        if not count:
            return np.empty((0, COLUMNS), np.uint64)
        found: Rows = np.fromfile(self.path, np.uint64, count * COLUMNS, offset=start * WIDTH).reshape(-1, COLUMNS)
        if len(found) != count:
            raise OSError(f"{self.path} is shorter than it was")
        return found

    def pieces(self, start: int = 0, end: int | None = None) -> Iterator[Rows]:
        """Yield rows from ``start`` up to ``end``, ``PIECE`` at a time."""
        end = self.count if end is None else end
        for at in range(start, end, PIECE):
            yield self.read(at, min(end, at + PIECE))

    def remove(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)
        self.count = 0


def inputs_of(rows: Rows) -> NDArray[np.uint64]:
    """Return the number of the input of each row."""
    return rows[:, PLACE] >> np.uint64(16)


_TAIL = 2 * BLOCK  # the end mark
_LONGER = 3 * BLOCK  # maximum growth of a member's headers with another name
_FIELDS = np.uint64(0xFFFF)
_MOST_SHARDS = 10_000_000

Bounds = tuple[int, int]  # the rows of an output: from the first up to the second


def bounds_of(rows: RowFile, options: ReshardOptions, inputs: float, part: str = "") -> list[Bounds]:
    """Return the outputs of a part, in order; every row is in one of them.

    ``inputs``: the number of inputs for so many samples, the default number of outputs. ``part``: its name.
    Raises ValueError if there are fewer samples than shards.
    """
    if not rows.count:
        return []
    if options.size is not None:
        return list(_by_size(rows, options.size))
    count = _count(rows.count, options, inputs)
    if count > rows.count:
        wanted = f"--shards {options.shards}" if options.shards else f"--divisible-by {options.divisible_by}"
        of = f" of {part}" if part else ""
        raise ValueError(f"{wanted}: {how_many(count, 'shard')} cannot be made of {how_many(rows.count, 'sample')}{of}")
    if count > _MOST_SHARDS:
        raise ValueError(f"these would be {count:,} shards: at most {_MOST_SHARDS:,}")
    return list(pairwise(number * rows.count // count for number in range(count + 1)))


def _count(samples: int, options: ReshardOptions, inputs: float) -> int:
    if options.shards is not None:
        return options.shards
    least = -(-samples // options.samples) if options.samples is not None else max(1, round(inputs))
    if options.divisible_by is None:
        return min(least, samples)
    whole = options.divisible_by.readers
    return -(-least // whole) * whole


def _by_size(rows: RowFile, most: int) -> Iterator[Bounds]:
    """Fill shards up to ``most`` bytes; a larger sample is alone in its shard."""
    start, before = 0, -1
    window, base = rows.read(0, PIECE), 0
    room = np.uint64(max(0, most - _TAIL))
    while start < rows.count:
        here = window[start - base :]
        sizes = here[:, END] - here[:, START]
        count = int(np.searchsorted(np.cumsum(sizes, dtype=np.uint64), room, side="right"))
        if count >= len(here) and base + len(window) < rows.count:  # the window ends first
            window, base = rows.read(start, start + 2 * max(len(here), PIECE)), start
            continue
        grown = np.cumsum(sizes[:count] + _growth(here[:count], before), dtype=np.uint64)
        count = max(1, int(np.searchsorted(grown, room, side="right")))
        before = int(here[count - 1, KEY])
        yield start, start + count
        start += count


def _growth(rows: Rows, before: int) -> NDArray[np.uint64]:
    """Return the possible growth of each sample in bytes: duplicate keys get another name."""
    again = np.ones(len(rows), bool)
    again[np.unique(rows[:, KEY], return_index=True)[1]] = False
    if len(rows) and int(rows[0, KEY]) == before:
        again[0] = True
    grown: NDArray[np.uint64] = again * (rows[:, PLACE] & _FIELDS) * np.uint64(_LONGER)
    return grown


_KEY = 1000  # sorted prefix of a key, in bytes: DuckDB cannot sort many rows of several KiB in little memory
_OUTSIDE = "in no part of the split"

_Placed = tuple[NDArray[np.uint64] | Sequence[object], Rows]  # values by which rows are sorted, and the rows


def arrange(inputs: Sequence["InputJob"], options: ReshardOptions, scratch: Path) -> tuple[list[RowFile], Counter[str]]:
    """Return a file for each part, with the rows of its samples in final order, and counts of omitted ones by reason.

    ``inputs`` are done and in order. Raises OSError if the folder ``scratch`` cannot be written.
    """
    parts = [RowFile(scratch / f"part-{number}.rows") for number in range(len(options.parts))]
    left_out: Counter[str] = Counter()
    with ExitStack() as stack:
        tables = stack.enter_context(Tables(scratch)) if options.scattered else None
        pieces: Iterable[Rows] = (rows for job in inputs for rows in job.rows.pieces())
        if tables and options.by_key:
            pieces = _sorted(tables, "BLOB", _by_key(inputs))
        for rows in pieces:
            for number, chosen in _parted(rows, options.parts, left_out):
                parts[number].append(chosen)
        for job in inputs:
            job.rows.remove()
            job.key_file.unlink(missing_ok=True)
        if tables and options.shuffle is not None:
            for number, part in enumerate(parts):
                shuffled = RowFile(scratch / f"shuffled-{number}.rows")
                for rows in _sorted(tables, "UBIGINT", _at_random(part, options.shuffle, number)):
                    shuffled.append(rows)
                if shuffled.count != part.count:
                    raise RuntimeError(f"{part.count} samples were to be shuffled, and there are {shuffled.count}")
                if part.count:
                    shuffled.path = shuffled.path.replace(part.path)
                parts[number] = shuffled
    return parts, left_out


def _parted(rows: Rows, parts: Sequence[SplitPart], left_out: Counter[str]) -> Iterator[tuple[int, Rows]]:
    """Yield the rows of each part: the hash of the key decides, so a sample stays in its part when others are added."""
    if parts[-1].end == HASHES and len(parts) == 1:
        yield 0, rows
        return
    ends = np.array([part.end for part in parts if part.end < HASHES], np.uint64)
    numbers = np.searchsorted(ends, rows[:, KEY], side="right")
    for number in range(len(parts)):
        yield number, rows[numbers == number]
    if outside := int(np.count_nonzero(numbers == len(parts))):
        left_out[_OUTSIDE] += outside


def _sorted(tables: Tables, kind: str, placed: Iterable[_Placed]) -> Iterator[Rows]:
    """Yield all rows by their values, of an SQL type; equal ones in the order of the inputs."""
    tables.run(f"CREATE OR REPLACE TABLE rows (value {kind}, key UBIGINT, first UBIGINT, past UBIGINT, place UBIGINT)")
    count = 0
    for values, rows in placed:
        key, first, past, place = np.ascontiguousarray(rows.T)
        tables.add("rows", value=values, key=key, first=first, past=past, place=place)
        count += len(rows)
    tables.run(
        "CREATE OR REPLACE TABLE ordered AS SELECT key, first, past, place FROM rows ORDER BY value, place >> 16, first"
    )
    tables.run("DROP TABLE rows")
    for start in range(0, count, PIECE):
        piece = tables.arrays(
            "SELECT * FROM ordered WHERE rowid >= ? AND rowid < ? ORDER BY rowid", start, start + PIECE
        )
        yield np.stack(list(piece.values()), axis=1)


def _by_key(inputs: Iterable["InputJob"]) -> Iterator[_Placed]:
    """Yield all rows with their keys."""
    keys, held = list[bytes](), list[Rows]()
    for job in inputs:
        if not job.rows.count:
            continue
        with open(job.key_file, "rb") as file:
            for rows in job.rows.pieces():
                keys += [file.read(int.from_bytes(file.read(4), "little"))[:_KEY] for _ in range(len(rows))]
                held.append(rows)
                if len(keys) >= PIECE:
                    yield keys, np.concatenate(held)
                    keys, held = [], []
    if held:
        yield keys, np.concatenate(held)


def _at_random(part: RowFile, seed: int, number: int) -> Iterator[_Placed]:
    """Yield the rows of a part, each with a unique random number (splitmix64) that depends only on seed and order."""
    from xxhash import xxh3_64_intdigest

    first, at = np.uint64(xxh3_64_intdigest(f"{seed} {number}".encode())), 1
    for rows in part.pieces():
        with np.errstate(over="ignore"):
            x = np.arange(at, at + len(rows), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + first
            x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            yield np.asarray(x ^ (x >> np.uint64(31))), rows
        at += len(rows)
