"""What one output consists of: ranges of any number of inputs, and new headers where a key is there already."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from wdsflow.shards.source.base import Source, SourceError
from wdsflow.shards.tar.member_names import split_name
from wdsflow.shards.tar.tar_entry import Ending, Entry, read_entry
from wdsflow.shards.tar.tar_header import BLOCK, padded
from wdsflow.shards.write_shard import header
from wdsflow.text.escape import both_ends

from .read_inputs import key_bytes
from .reshard_report import OutputReport
from .sample_rows import END, KEY, PIECE, START, RowFile, inputs_of
from .shard_bounds import Bounds

_AHEAD = 64  # samples that are announced before they are read
_EXAMPLES = 3  # renamed keys that are reported
_SHOWN = 80  # characters of each


class InputRange(NamedTuple):
    """Bytes of an input from ``start`` to ``end``: whole members, with headers and padding."""

    number: int
    start: int
    end: int


class Inputs(Protocol):
    """The inputs, by their numbers."""

    def get(self, number: int) -> Source:
        """Return an input, open until the next call. Raises SourceError, OSError."""


@dataclass(frozen=True, eq=False)
class PlannedOutput:
    """The samples of one output, in order."""

    rows: RowFile
    bounds: Bounds
    inputs: Inputs
    scattered: bool  # neighbours come from anywhere, and are announced before they are read


def output_pieces(job: PlannedOutput, report: OutputReport) -> Iterator[InputRange | bytes]:
    """Yield what an output consists of, in order, without its end; count samples in ``report``.

    Raises SourceError if an input changed, OSError if it cannot be read.
    """
    numbers = repeated_keys(job)
    taken = _keys_of(job) if numbers else set()
    report.samples = job.bounds.end - job.bounds.start
    for piece, place in _ranges(job, numbers):
        if place < 0:
            yield piece
        else:
            yield from _renamed(job.inputs.get(piece.number), piece, numbers[place], taken, report)


def repeated_keys(job: PlannedOutput) -> dict[int, int]:
    """Return the rows whose key a reader would confuse with that of a sample before, and which number they get.

    Those are the second and further samples of a key in a shard, and the first ones if the shard before ends with
    that key.
    """
    keys = job.rows.read(*job.bounds)[:, KEY]
    before = repeats_before(job)
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if not len(again) and not before:
        return {}
    counts: Counter[int] = Counter({int(keys[0]): before} if before else {})
    wanted = {int(keys[order[at]]) for at in again.tolist()} | set(counts)
    found: dict[int, int] = {}
    for at in np.flatnonzero(np.isin(keys, np.array(list(wanted), np.uint64))).tolist():
        key = int(keys[at])
        counts[key] += 1
        if counts[key] > 1:
            found[job.bounds.start + at] = counts[key]
    return found


def repeats_before(job: PlannedOutput) -> int:
    """Return how many samples directly before the output have the key of its first one."""
    start = end = job.bounds.start
    if not start:
        return 0
    key = job.rows.read(start, start + 1)[0, KEY]
    while start:
        start = max(0, start - PIECE)
        other = np.flatnonzero(job.rows.read(start, min(start + PIECE, end))[:, KEY] != key)
        if len(other):
            return end - start - int(other[-1]) - 1
    return end


def _keys_of(job: PlannedOutput) -> set[int]:
    return set(job.rows.read(*job.bounds)[:, KEY].tolist())


def _ranges(job: PlannedOutput, renamed: dict[int, int]) -> Iterator[tuple[InputRange, int]]:
    """Yield ranges, neighbours joined, and the place of the row if its sample gets another name, else -1."""
    waiting = (-1, 0, 0)
    at = job.bounds.start
    for rows in job.rows.pieces(*job.bounds):
        numbers, starts, ends = inputs_of(rows).tolist(), rows[:, START].tolist(), rows[:, END].tolist()
        for place, (number, start, end) in enumerate(zip(numbers, starts, ends, strict=True)):
            if job.scattered and place + _AHEAD < len(numbers):
                _announce(job, numbers[place + _AHEAD], starts[place + _AHEAD], ends[place + _AHEAD])
            if at + place in renamed:
                yield from _last(waiting)
                yield InputRange(number, start, end), at + place
                waiting = (-1, 0, 0)
            elif number == waiting[0] and start == waiting[2]:
                waiting = (number, waiting[1], end)
            else:
                yield from _last(waiting)
                waiting = (number, start, end)
        at += len(numbers)
    yield from _last(waiting)


def _last(waiting: tuple[int, int, int]) -> Iterator[tuple[InputRange, int]]:
    if waiting[0] >= 0:
        yield InputRange(*waiting), -1


def _announce(job: PlannedOutput, number: int, start: int, end: int) -> None:
    """Let the system read a sample in the background."""
    job.inputs.get(number).ahead(start, end - start)


def _renamed(
    source: Source, piece: InputRange, number: int, taken: set[int], report: OutputReport
) -> Iterator[InputRange | bytes]:
    """Yield a sample with another key: new headers, the same contents."""
    from xxhash import xxh3_64_intdigest

    entries = list(_entries(source, piece.start, piece.end))
    key = split_name(entries[0].name)[0]
    if key is None:
        raise SourceError("io", f"it changed while it was read: no sample at byte {piece.start:,}")
    while (digest := xxh3_64_intdigest(key_bytes(f"{key}-{number}"))) in taken:
        number += 1
    taken.add(digest)
    new = f"{key}-{number}"
    for entry in entries:
        if entry.kind != "file" or split_name(entry.name)[0] != key:
            yield InputRange(piece.number, entry.header, entry.next)
            continue
        yield header(new + entry.name[len(key) :], entry.size)
        yield InputRange(piece.number, entry.data, entry.data + padded(entry.size))
    report.renamed += 1
    if len(report.examples) < _EXAMPLES:
        report.examples.append(f"{both_ends(key, _SHOWN)} -> {both_ends(new, _SHOWN)}")


def _entries(source: Source, start: int, end: int) -> Iterator[Entry]:
    at = start
    while at < end:
        try:
            entry = read_entry(source.read_at, at, {})
        except Ending as ending:
            raise SourceError("io", f"it changed while it was read: at byte {at:,} {ending}") from None
        yield entry
        at = max(entry.next, at + BLOCK)
