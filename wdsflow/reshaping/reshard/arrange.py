"""Between the passes: which samples come into which part and output, and in which order."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsflow.shards.tar.tar_header import BLOCK
from wdsflow.tables import Tables
from wdsflow.text.words import how_many

from .read_inputs import InputJob
from .reshard_options import HASHES, ReshardOptions, SplitPart
from .sample_rows import END, KEY, PIECE, PLACE, START, RowFile, Rows, mixed

_TAIL = 2 * BLOCK  # the end mark
_LONGER = 3 * BLOCK  # by which the headers of a member may grow with another name
_FIELDS = np.uint64(0xFFFF)
_MOST_SHARDS = 10_000_000


class Bounds(NamedTuple):
    """An output: its rows, from ``start`` up to ``end``."""

    start: int
    end: int


def bounds_of(rows: RowFile, options: ReshardOptions, inputs: float, part: str = "") -> list[Bounds]:
    """Return the outputs of a part, in order; every row is in one of them.

    Args:
        rows: of the part.
        options: how large shards are.
        inputs: how many inputs held as many samples: without a wish there are as many outputs.
        part: its name, for messages.

    Raises:
        ValueError: there are fewer samples than shards.
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
    edges = [number * rows.count // count for number in range(count + 1)]
    return [Bounds(start, end) for start, end in pairwise(edges)]


def _count(samples: int, options: ReshardOptions, inputs: float) -> int:
    if options.shards is not None:
        return options.shards
    least = -(-samples // options.samples) if options.samples is not None else max(1, round(inputs))
    if options.divisible_by is None:
        return min(least, samples)
    whole = options.divisible_by.readers
    return -(-least // whole) * whole


def _by_size(rows: RowFile, most: int) -> Iterator[Bounds]:
    """Fill shards up to ``most`` bytes; a sample that is larger is alone."""
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
        yield Bounds(start, start + count)
        start += count


def _growth(rows: Rows, before: int) -> NDArray[np.uint64]:
    """Return by how many bytes each sample may grow: those get another name whose key is there already."""
    again = np.ones(len(rows), bool)
    again[np.unique(rows[:, KEY], return_index=True)[1]] = False
    if len(rows) and int(rows[0, KEY]) == before:
        again[0] = True
    grown: NDArray[np.uint64] = again * (rows[:, PLACE] & _FIELDS) * np.uint64(_LONGER)
    return grown


_KEY = 1000  # bytes of a key that decide its place: DuckDB cannot sort many rows of several KiB in little memory
_OUTSIDE = "in no part of the split"

_Placed = tuple[NDArray[np.uint64] | Sequence[object], Rows]  # values by which rows are sorted, and the rows


def arrange(inputs: Sequence[InputJob], options: ReshardOptions, scratch: Path) -> tuple[list[RowFile], Counter[str]]:
    """Return for each part a file with the rows of its samples in their final order, and what is left out, by reason.

    Args:
        inputs: jobs that are done, in their order.
        options: what decides parts and order.
        scratch: folder for the files.

    Raises:
        OSError: the folder cannot be written.
    """
    parts = [RowFile(scratch / f"part-{number}.rows") for number in range(len(options.parts))]
    for part in parts:
        part.remove()
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
                part.replace(_sorted(tables, "UBIGINT", _at_random(part, options.shuffle, number)))
    return parts, left_out


def _parted(rows: Rows, parts: Sequence[SplitPart], left_out: Counter[str]) -> Iterator[tuple[int, Rows]]:
    """Yield the rows of each part: the hash of the key decides, so that a sample stays in its part if others come."""
    if parts[-1].end == HASHES and len(parts) == 1:
        yield 0, rows
        return
    ends = np.array([part.end for part in parts if part.end < HASHES], np.uint64)
    numbers = np.searchsorted(ends, rows[:, KEY], side="right")
    for number in range(len(parts)):
        yield number, rows[numbers == number]
    outside = int(np.count_nonzero(numbers == len(parts)))
    if outside:
        left_out[_OUTSIDE] += outside


def _sorted(tables: Tables, kind: str, placed: Iterable[_Placed]) -> Iterator[Rows]:
    """Yield all rows by their values, of an SQL type; those of one value in the order of the inputs."""
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


def _by_key(inputs: Iterable[InputJob]) -> Iterator[_Placed]:
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
    """Yield the rows of a part, each with a random number that no other one has: of the seed and their order alone."""
    from xxhash import xxh3_64_intdigest

    first = xxh3_64_intdigest(f"{seed} {number}".encode())
    at = 0
    for rows in part.pieces():
        with np.errstate(over="ignore"):
            numbers = np.arange(at + 1, at + len(rows) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            yield mixed(numbers + np.uint64(first)), rows
        at += len(rows)
