"""The outputs: their pieces, and writing them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import numpy as np

from wdsflow.pieces.pieces import OFFSET_BITS, address, header, number_of
from wdsflow.pieces.tar_view import JoinedSource
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.source.base import Piece, Range, Source, SourceError
from wdsflow.shards.tar.members import split_name
from wdsflow.shards.tar.tar_entry import Ending, Entry, read_entry
from wdsflow.shards.tar.tar_header import BLOCK, padded
from wdsflow.text.shell import both_ends
from wdsflow.text.words import how_many

from .arrange import END, KEY, PIECE, START, RowFile, inputs_of
from .read_inputs import OpenInputs, key_bytes
from .reshard_report import OutputReport

_CODE = 1  # version of the result
_AHEAD = 64  # samples that are announced before they are read
_EXAMPLES = 3  # renamed keys that are reported
_SHOWN = 80  # characters of each


class RepeatedKeys(ValueError):
    """Duplicate keys in a shard, if they are to be refused."""


@dataclass(frozen=True, eq=False)
class PartJob:
    """One output: the samples of ``rows`` from ``start`` up to ``end``, in order."""

    rows: RowFile
    start: int
    end: int
    scattered: bool  # neighbours are from anywhere in the inputs, and announced before they are read
    target: Path  # the file to write


def output_pieces(job: PartJob, inputs: JoinedSource, report: OutputReport, stop: Event) -> Iterator[Piece]:
    """Yield the pieces of an output in order, without end-of-archive blocks; count samples in ``report``.

    Raises SourceError if an input changed, OSError if it cannot be read, InterruptedError after ``stop``.
    """
    numbers = repeated_keys(job)
    taken = set(job.rows.read(job.start, job.end)[:, KEY].tolist()) if numbers else set()
    report.samples = job.end - job.start
    at = job.start
    for rows in job.rows.pieces(job.start, job.end):
        bases = inputs_of(rows) << np.uint64(OFFSET_BITS)
        ranges = list(zip((bases + rows[:, START]).tolist(), (bases + rows[:, END]).tolist(), strict=True))
        for place, piece in enumerate(ranges):
            if stop.is_set():
                raise InterruptedError("given up")
            if job.scattered and place + _AHEAD < len(ranges):
                start, end = ranges[place + _AHEAD]
                inputs.ahead(start, end - start)
            if at + place in numbers:
                yield from _renamed(inputs, piece, numbers[at + place], taken, report)
            else:
                yield piece
        at += len(ranges)


def repeated_keys(job: PartJob) -> dict[int, int]:
    """Return the rows whose key a reader would confuse with an earlier sample's, and their new numbers.

    These are the second and further samples of a key in a shard, and the first ones if the previous shard ends with
    that key.
    """
    keys = job.rows.read(job.start, job.end)[:, KEY]
    before = _repeats_before(job)
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
            found[job.start + at] = counts[key]
    return found


def _repeats_before(job: PartJob) -> int:
    """Return how many samples directly before the output have the key of its first one."""
    start = end = job.start
    if not start:
        return 0
    key = job.rows.read(start, start + 1)[0, KEY]
    while start:
        start = max(0, start - PIECE)
        other = np.flatnonzero(job.rows.read(start, min(start + PIECE, end))[:, KEY] != key)
        if len(other):
            return end - start - int(other[-1]) - 1
    return end


def refuse_repeated(work: Sequence[PartJob]) -> None:
    """Raise RepeatedKeys if samples would get another key."""
    found = [len(numbers) for job in work if (numbers := repeated_keys(job))]
    if found:
        raise RepeatedKeys(
            f"{how_many(sum(found), 'sample')} would share a shard with another sample of the same key,"
            f" in {how_many(len(found), 'shard')}"
        )


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


def made_from(inputs: OpenInputs, job: PartJob) -> dict[str, object]:
    """Return the inputs that determine the bytes of an output."""
    from xxhash import xxh3_128

    digest, used = xxh3_128(), set[int]()
    for rows in job.rows.pieces(job.start, job.end):
        digest.update(rows.tobytes())
        used.update(np.unique(inputs_of(rows)).tolist())
    digest.update(str(_repeats_before(job)).encode())
    identities = xxh3_128()
    for number in sorted(used):
        found = inputs.inputs[number]
        identities.update(repr((number, found.url, sorted(found.identity.items()))).encode())
    return {"code": _CODE, "samples": digest.hexdigest(), "inputs": identities.hexdigest()}


def write_output(inputs: OpenInputs, job: PartJob, report: OutputReport, stop: Event) -> None:
    """Write an output atomically.

    Raises SourceError if an input changed, OSError if the output cannot be written.
    """
    source = inputs.source()
    report.bytes = write_pieces(job.target, source, output_pieces(job, source, report, stop))
    report.output = str(job.target)
