"""Writes one output: ranges of the inputs, and new headers for samples whose key occurs again."""

from collections.abc import Iterator
from threading import Event

import numpy as np

from wdsflow.pieces.joined_source import JoinedSource
from wdsflow.pieces.pieces import OFFSET_BITS, address, input_at
from wdsflow.pieces.tar_members import header
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.source.base import Piece, Range, Source, SourceError
from wdsflow.shards.tar.members import split_name
from wdsflow.shards.tar.tar_entry import Entry, NoEntry, read_entry
from wdsflow.shards.tar.tar_header import BLOCK, padded
from wdsflow.text.shell import without_middle

from .open_inputs import OpenInputs
from .output_job import OutputShardJob
from .record_samples import key_bytes
from .repeated_keys import repeated_keys, repeats_before
from .reshard_report import OutputReport
from .row_file import END, KEY, START, Rows, inputs_of

# The version of the result: another one writes all outputs again.
_CODE = 1
# Samples that are announced before they are read.
_AHEAD = 64
# Keys that were replaced and are reported, and the characters of each.
_EXAMPLES = 3
_SHOWN = 80


def write_output(
    inputs: OpenInputs, job: OutputShardJob, report: OutputReport, stop: Event
) -> None:
    """Write an output atomically.

    Raises SourceError if an input changed, OSError if the output cannot be written,
    InterruptedError after ``stop``.
    """
    source = inputs.source()
    report.samples = job.end - job.start
    report.bytes = write_pieces(job.target, source, _pieces(job, source, report, stop))
    report.output = str(job.target)


def made_from(inputs: OpenInputs, job: OutputShardJob) -> dict[str, object]:
    """Return what determines the bytes of an output: its samples and its input identities."""
    from xxhash import xxh3_128

    samples = xxh3_128()
    input_numbers: set[int] = set()
    for rows in job.rows.pieces(job.start, job.end):
        samples.update(rows.tobytes())
        input_numbers.update(np.unique(inputs_of(rows)).tolist())
    samples.update(str(repeats_before(job)).encode())
    identities = xxh3_128()
    for number in sorted(input_numbers):
        report = inputs.inputs[number]
        identities.update(repr((number, report.url, sorted(report.identity.items()))).encode())
    return {"code": _CODE, "samples": samples.hexdigest(), "inputs": identities.hexdigest()}


def _pieces(
    job: OutputShardJob, inputs: JoinedSource, report: OutputReport, stop: Event
) -> Iterator[Piece]:
    """Yield the pieces of an output in order, without end-of-archive blocks.

    Raises SourceError if an input changed, OSError if it cannot be read, InterruptedError after
    ``stop``.
    """
    numbers = repeated_keys(job)
    renamer = None
    if numbers:
        used_digests = set(job.rows.read(job.start, job.end)[:, KEY].tolist())
        renamer = _Renamer(inputs, used_digests, report)
    row = job.start
    for rows in job.rows.pieces(job.start, job.end):
        ranges = _addresses(rows)
        for position, sample in enumerate(ranges):
            if stop.is_set():
                raise InterruptedError("given up")
            if job.is_scattered and position + _AHEAD < len(ranges):
                start, end = ranges[position + _AHEAD]
                inputs.prefetch(start, end - start)
            if renamer is not None and row in numbers:
                yield from renamer.pieces(sample, numbers[row])
            else:
                yield sample
            row += 1


def _addresses(rows: Rows) -> list[Range]:
    """Return the ranges of samples in the joined inputs."""
    bases = inputs_of(rows) << np.uint64(OFFSET_BITS)
    starts = (bases + rows[:, START]).tolist()
    ends = (bases + rows[:, END]).tolist()
    return list(zip(starts, ends, strict=True))


class _Renamer:
    """Gives samples of an output other keys.

    Args:
        inputs: the joined inputs.
        used_digests: the hashes of all keys of the output.
        report: its counts and examples of renamed samples are filled in.
    """

    def __init__(self, inputs: JoinedSource, used_digests: set[int], report: OutputReport) -> None:
        from xxhash import xxh3_64_intdigest

        self._digest = xxh3_64_intdigest
        self._inputs = inputs
        self._used_digests = used_digests
        self._report = report

    def pieces(self, sample: Range, number: int) -> Iterator[Piece]:
        """Yield a sample under the key ``KEY-number``, or the next free one.

        The headers are new, the contents unchanged.
        """
        input_number = input_at(sample[0])
        base = address(input_number, 0)
        start = sample[0] - base
        entries = list(_entries(self._inputs.open_input(input_number), start, sample[1] - base))
        key = split_name(entries[0].name)[0]
        if key is None:
            raise SourceError("io", f"it changed while it was read: no sample at byte {start:,}")
        new_key = self._free_key(key, number)
        for entry in entries:
            is_member = entry.kind == "file" and split_name(entry.name)[0] == key
            if is_member:
                yield header(new_key + entry.name[len(key) :], entry.size)
                yield base + entry.data, base + entry.data + padded(entry.size)
            else:
                yield base + entry.header, base + entry.next
        self._report.renamed += 1
        if len(self._report.examples) < _EXAMPLES:
            self._report.examples.append(
                f"{without_middle(key, _SHOWN)} -> {without_middle(new_key, _SHOWN)}"
            )

    def _free_key(self, key: str, number: int) -> str:
        while True:
            new_key = f"{key}-{number}"
            digest = self._digest(key_bytes(new_key))
            if digest not in self._used_digests:
                self._used_digests.add(digest)
                return new_key
            number += 1


def _entries(source: Source, start: int, end: int) -> Iterator[Entry]:
    """Yield the members of one sample."""
    offset = start
    while offset < end:
        try:
            entry = read_entry(source.read_at, offset, {})
        except NoEntry as ending:
            raise SourceError(
                "io", f"it changed while it was read: at byte {offset:,} {ending}"
            ) from None
        yield entry
        offset = max(entry.next, offset + BLOCK)
