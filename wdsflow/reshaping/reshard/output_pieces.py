"""What one output consists of: ranges of any number of inputs, and new headers where a key is there already."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from wdsflow.pieces.joined_source import JoinedSource
from wdsflow.pieces.new_members import header
from wdsflow.pieces.pieces import OFFSET_BITS, address, number_of
from wdsflow.shards.source.base import Piece, Range, Source, SourceError
from wdsflow.shards.tar.members import split_name
from wdsflow.shards.tar.tar_entry import Ending, Entry, read_entry
from wdsflow.shards.tar.tar_header import BLOCK, padded
from wdsflow.text.escape import both_ends

from .arrange import Bounds
from .read_inputs import key_bytes
from .reshard_report import OutputReport
from .sample_rows import END, KEY, PIECE, START, RowFile, inputs_of

_AHEAD = 64  # samples that are announced before they are read
_EXAMPLES = 3  # renamed keys that are reported
_SHOWN = 80  # characters of each


@dataclass(frozen=True, eq=False)
class PlannedOutput:
    """The samples of one output, in order."""

    rows: RowFile
    bounds: Bounds
    scattered: bool = False  # neighbours come from anywhere, and are announced before they are read


def output_pieces(job: PlannedOutput, inputs: JoinedSource, report: OutputReport) -> Iterator[Piece]:
    """Yield what an output consists of, in order, without its end; count samples in ``report``.

    Raises SourceError if an input changed, OSError if it cannot be read.
    """
    numbers = repeated_keys(job)
    taken = _keys_of(job) if numbers else set()
    report.samples = job.bounds.end - job.bounds.start
    at = job.bounds.start
    for rows in job.rows.pieces(*job.bounds):
        bases = (inputs_of(rows) << np.uint64(OFFSET_BITS)).astype(np.int64)
        ranges = [
            *zip(
                (bases + rows[:, START].astype(np.int64)).tolist(),
                (bases + rows[:, END].astype(np.int64)).tolist(),
                strict=True,
            )
        ]
        for place, piece in enumerate(ranges):
            if job.scattered and place + _AHEAD < len(ranges):
                start, end = ranges[place + _AHEAD]
                inputs.ahead(start, end - start)
            if at + place in numbers:
                yield from _renamed(inputs, piece, numbers[at + place], taken, report)
            else:
                yield piece
        at += len(ranges)


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


def _renamed(inputs: JoinedSource, piece: Range, number: int, taken: set[int], report: OutputReport) -> Iterator[Piece]:
    """Yield a sample with another key: new headers, the same contents."""
    from xxhash import xxh3_64_intdigest

    base = address(number_of(piece[0]), 0)
    entries = list(_entries(inputs.get(number_of(piece[0])), piece[0] - base, piece[1] - base))
    key = split_name(entries[0].name)[0]
    if key is None:
        raise SourceError("io", f"it changed while it was read: no sample at byte {piece[0] - base:,}")
    while (digest := xxh3_64_intdigest(key_bytes(f"{key}-{number}"))) in taken:
        number += 1
    taken.add(digest)
    new = f"{key}-{number}"
    for entry in entries:
        if entry.kind != "file" or split_name(entry.name)[0] != key:
            yield base + entry.header, base + entry.next
            continue
        yield header(new + entry.name[len(key) :], entry.size)
        yield base + entry.data, base + entry.data + padded(entry.size)
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
