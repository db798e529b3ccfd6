"""Between the passes: which samples come into which part, and in which order."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from wdsflow.tables import Tables

from .read_inputs import InputJob
from .reshard_options import HASHES, ReshardOptions, SplitPart
from .sample_rows import KEY, PIECE, RowFile, Rows, mixed

_KEY = 1000  # bytes of a key that decide its place: DuckDB cannot sort many rows of several KiB in little memory
_OUTSIDE = "in no part of the split"

_Placed = tuple[Any, Rows]  # values by which rows are sorted, and the rows


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
