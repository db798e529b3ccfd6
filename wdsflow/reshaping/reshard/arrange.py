"""Between the passes: which samples come into which part, and in which order. Sorts on disk what memory cannot hold."""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .read_inputs import InputJob
from .reshard_options import HASHES, ReshardOptions, SplitPart
from .sample_rows import COLUMNS, KEY, PIECE, WIDTH, RowFile, Rows, mixed

IN_MEMORY = 2 << 20  # rows that are sorted in memory: about 200 MB
_RUNS = 128  # sorted files that are merged at a time
_RUN_KEYS, _RUN_BYTES = 200_000, 32 << 20  # keys, and bytes of them, that are sorted in memory
_OUTSIDE = "in no part of the split"

_Keyed = tuple[bytes, bytes]  # key, row


def arrange(
    inputs: Sequence[InputJob], options: ReshardOptions, scratch: Path, in_memory: int = IN_MEMORY
) -> tuple[list[RowFile], Counter[str]]:
    """Return for each part a file with the rows of its samples in their final order, and what is left out, by reason.

    Args:
        inputs: jobs that are done, in their order.
        options: what decides parts and order.
        scratch: folder for the files.
        in_memory: rows that are sorted in memory.
    """
    parts = [RowFile(scratch / f"part-{number}.rows") for number in range(len(options.parts))]
    for part in parts:
        part.remove()
    left_out: Counter[str] = Counter()
    pieces = _by_key(inputs, scratch) if options.by_key else (rows for job in inputs for rows in job.rows.pieces())
    for rows in pieces:
        for number, chosen in _parted(rows, options.parts, left_out):
            parts[number].append(chosen)
    for job in inputs:
        job.rows.remove()
        job.key_file.unlink(missing_ok=True)
    if options.shuffle is not None:
        for number, part in enumerate(parts):
            _shuffle(part, options.shuffle, number, in_memory)
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


def _shuffle(part: RowFile, seed: int, number: int, in_memory: int) -> None:
    """Put the rows of a part into a random order, which depends on the seed and their order alone."""
    from xxhash import xxh3_64_intdigest

    first = xxh3_64_intdigest(f"{seed} {number}".encode())
    if part.count <= in_memory:
        _rewrite(part, [_in_order(part.read(0, part.count), _places(first, 0, part.count))])
        return
    count = 2 * -(-part.count // in_memory)  # buckets of half the size on average
    buckets = [RowFile(part.path.with_suffix(f".{bucket}")) for bucket in range(count)]
    places = [part.path.with_suffix(f".{bucket}.places") for bucket in range(count)]
    at = 0
    for piece in part.pieces(most=max(1, in_memory // 2)):
        drawn = _places(first, at, len(piece))
        at += len(piece)
        # The upper 32 bits decide the bucket: no product is larger than 64 bits.
        target = (((drawn >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32)).astype(np.uint32)
        order = np.argsort(target, kind="stable")
        rows, drawn = piece[order], drawn[order]
        ends = np.searchsorted(target[order], np.arange(count + 1))
        for bucket in range(count):
            here = slice(ends[bucket], ends[bucket + 1])
            buckets[bucket].append(rows[here])
            with open(places[bucket], "ab") as file:
                file.write(drawn[here].tobytes())
    _rewrite(part, (_taken(bucket, path) for bucket, path in zip(buckets, places, strict=True)))


def _taken(bucket: RowFile, places: Path) -> Rows:
    rows = _in_order(bucket.read(0, bucket.count), np.fromfile(places, np.uint64))
    bucket.remove()
    places.unlink()
    return rows


def _places(first: int, start: int, count: int) -> NDArray[np.uint64]:
    """Return a random number for each row from ``start`` on; no two are the same."""
    with np.errstate(over="ignore"):
        numbers = np.arange(start + 1, start + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return mixed(numbers + np.uint64(first))


def _in_order(rows: Rows, places: NDArray[np.uint64]) -> Rows:
    return rows[np.argsort(places, kind="stable")]


def _rewrite(part: RowFile, pieces: Iterable[Rows]) -> None:
    new = RowFile(part.path.with_suffix(".new"))
    new.remove()
    for rows in pieces:
        new.append(rows)
    if new.count != part.count:
        raise RuntimeError(f"{part.count} samples were to be shuffled, and there are {new.count}")
    if new.count:
        new.path.replace(part.path)


def _by_key(inputs: Sequence[InputJob], scratch: Path) -> Iterator[Rows]:
    """Yield all rows in the order of their keys, as bytes; samples of one key in the order of the inputs."""
    runs = list(_sorted_runs(inputs, scratch))
    merged = 0
    while len(runs) > _RUNS:
        path = scratch / f"merged-{merged}.run"
        _write_run(path, heapq.merge(*map(_read_run, runs[:_RUNS]), key=_key))
        for run in runs[:_RUNS]:
            run.unlink()
        runs, merged = [path, *runs[_RUNS:]], merged + 1  # first: samples of one key stay in their order
    found = heapq.merge(*map(_read_run, runs), key=_key)
    while piece := list(islice(found, PIECE)):
        yield np.frombuffer(b"".join(row for _, row in piece), np.uint64).reshape(-1, COLUMNS)
    for run in runs:
        run.unlink()


def _key(item: _Keyed) -> bytes:
    return item[0]


def _sorted_runs(inputs: Sequence[InputJob], scratch: Path) -> Iterator[Path]:
    held: list[_Keyed] = []
    size = number = 0
    for job in inputs:
        for item in _keyed(job):
            held.append(item)
            size += len(item[0])
            if len(held) >= _RUN_KEYS or size >= _RUN_BYTES:
                yield _write_run(scratch / f"{number}.run", sorted(held, key=_key))
                held, size, number = [], 0, number + 1
    if held:
        yield _write_run(scratch / f"{number}.run", sorted(held, key=_key))


def _keyed(job: InputJob) -> Iterator[_Keyed]:
    if not job.rows.count:
        return
    with open(job.key_file, "rb") as keys:
        for rows in job.rows.pieces():
            data = rows.tobytes()
            for at in range(0, len(data), WIDTH):
                yield keys.read(int.from_bytes(keys.read(4), "little")), data[at : at + WIDTH]


def _write_run(path: Path, items: Iterable[_Keyed]) -> Path:
    with open(path, "wb") as file:
        file.writelines(len(key).to_bytes(4, "little") + key + row for key, row in items)
    return path


def _read_run(path: Path) -> Iterator[_Keyed]:
    with open(path, "rb") as file:
        while length := file.read(4):
            key = file.read(int.from_bytes(length, "little"))
            yield key, file.read(WIDTH)
