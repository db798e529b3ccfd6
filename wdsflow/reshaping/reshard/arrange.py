"""Assigns the samples of all inputs to the parts, in the order in which they are written."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wdsflow.pieces.random_order import random_numbers
from wdsflow.tables import Tables

from .input_job import InputJob
from .reshard_options import HASHES, ReshardOptions, SplitPart
from .row_file import KEY, PIECE, RowFile, Rows

_OUTSIDE = "in no part of the split"
# Bytes of a key by which it is sorted: DuckDB cannot sort
# many rows of several KiB in little memory.
_SORTED_PREFIX = 1000

# Values by which rows are sorted, and the rows.
_Sortable = tuple[NDArray[np.uint64] | Sequence[object], Rows]


def arrange(
    inputs: Sequence[InputJob], options: ReshardOptions, scratch: Path
) -> tuple[list[RowFile], Counter[str]]:
    """Return a file for each part, with the rows of its samples in final order.

    Also returns counts of omitted samples by reason.

    Args:
        inputs: the inputs, which have been read, in order. Their files of rows and keys are
            removed.
        options: the order and the parts.
        scratch: a folder for the files.

    Raises OSError if ``scratch`` cannot be written.
    """
    parts = [RowFile(scratch / f"part-{number}.rows") for number in range(len(options.parts))]
    left_out: Counter[str] = Counter()
    with ExitStack() as stack:
        tables = stack.enter_context(Tables(scratch)) if options.is_scattered else None
        pieces: Iterable[Rows] = (rows for job in inputs for rows in job.rows.pieces())
        if tables is not None and options.by_key:
            pieces = _sorted(tables, "BLOB", _with_keys(inputs))
        for rows in pieces:
            _append_to_parts(parts, rows, options.parts, left_out)
        for job in inputs:
            job.rows.remove()
            job.key_file.unlink(missing_ok=True)
        if tables is not None and options.shuffle is not None:
            for number, part in enumerate(parts):
                parts[number] = _shuffled(tables, part, options.shuffle, number)
    return parts, left_out


def _append_to_parts(
    files: Sequence[RowFile], rows: Rows, parts: Sequence[SplitPart], left_out: Counter[str]
) -> None:
    """Add rows to the files of their parts.

    The hash of the key alone decides, so a sample stays in its part when others are added.
    """
    if len(parts) == 1 and parts[0].end == HASHES:
        files[0].append(rows)
        return
    # The end of a part that reaches to the last hash does not fit 64 bits.
    ends = np.array([part.end for part in parts if part.end < HASHES], np.uint64)
    numbers = np.searchsorted(ends, rows[:, KEY], side="right")
    for number, file in enumerate(files):
        file.append(rows[numbers == number])
    outside = int(np.count_nonzero(numbers == len(parts)))
    if outside:
        left_out[_OUTSIDE] += outside


def _shuffled(tables: Tables, part: RowFile, seed: int, number: int) -> RowFile:
    """Return the file of the part ``number`` with its rows in random order."""
    shuffled = RowFile(part.path.with_name(f"shuffled-{number}.rows"))
    for rows in _sorted(tables, "UBIGINT", _with_random_numbers(part, seed, number)):
        shuffled.append(rows)
    if shuffled.count != part.count:
        raise RuntimeError(
            f"{part.count} samples were to be shuffled, and there are {shuffled.count}"
        )
    if part.count:
        shuffled.path = shuffled.path.replace(part.path)
    return shuffled


def _sorted(tables: Tables, kind: str, sortable: Iterable[_Sortable]) -> Iterator[Rows]:
    """Yield all rows sorted by their values, which have the SQL type ``kind``.

    Rows of equal values are in the order of the inputs.
    """
    tables.run(
        f"CREATE OR REPLACE TABLE rows (value {kind}, key UBIGINT, first UBIGINT, past UBIGINT, origin UBIGINT)"
    )
    count = 0
    for values, rows in sortable:
        key, first, past, origin = np.ascontiguousarray(rows.T)
        tables.add("rows", value=values, key=key, first=first, past=past, origin=origin)
        count += len(rows)
    tables.run(
        "CREATE OR REPLACE TABLE ordered AS"
        " SELECT key, first, past, origin FROM rows ORDER BY value, origin >> 16, first"
    )
    tables.run("DROP TABLE rows")
    for start in range(0, count, PIECE):
        columns = tables.arrays(
            "SELECT * FROM ordered WHERE rowid >= ? AND rowid < ? ORDER BY rowid",
            start,
            start + PIECE,
        )
        yield np.stack(list(columns.values()), axis=1)


def _with_keys(inputs: Iterable[InputJob]) -> Iterator[_Sortable]:
    """Yield all rows with their keys, of which only a prefix counts."""
    keys: list[bytes] = []
    pieces: list[Rows] = []
    for job in inputs:
        if not job.rows.count:
            continue
        with open(job.key_file, "rb") as file:
            for rows in job.rows.pieces():
                for _ in range(len(rows)):
                    length = int.from_bytes(file.read(4), "little")
                    keys.append(file.read(length)[:_SORTED_PREFIX])
                pieces.append(rows)
                if len(keys) >= PIECE:
                    yield keys, np.concatenate(pieces)
                    keys, pieces = [], []
    if pieces:
        yield keys, np.concatenate(pieces)


def _with_random_numbers(part: RowFile, seed: int, number: int) -> Iterator[_Sortable]:
    """Yield the rows of the part ``number``, each with a random number.

    The random number depends on the row's position, counted from 1.
    """
    position = 1
    for rows in part.pieces():
        positions = np.arange(position, position + len(rows), dtype=np.uint64)
        position += len(rows)
        yield random_numbers(positions, f"{seed} {number}"), rows
