"""The second pass over a shard: its ranges are copied, and members with the values of the table put between them."""

from collections import Counter
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from wdsflow.shards.atomic import UNREADABLE
from wdsflow.shards.samples.copy_ranges import RangeWriter, tar_of_ranges
from wdsflow.shards.samples.tar_sample import Range, TarSample
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source.base import SourceChangedError, SourceError
from wdsflow.shards.source.unpack import seekable
from wdsflow.shards.write_shard import ShortSourceError

from .decide_matches import AMBIGUOUS, rows_file
from .graft_report import ShardGraft
from .graft_table import ABSENT, GraftTable
from .grafted_sample import FieldTally, GraftedFields
from .look_shard import DAMAGED, WITHOUT, ShardLook, notes_file, numbers_in, uncounted_of
from .noted_samples import NotedSamples

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class GraftJob:
    """One shard to write to ``target``; ``place``: where the first pass noted its rows."""

    url: str
    target: Path
    place: Path
    look: ShardLook
    drop_unmatched: bool = False
    allow_pipe: bool = False
    decided: str = ""  # what decides its rows


def graft_shard(job: GraftJob, table: GraftTable, fields: GraftedFields, stop: Event) -> ShardGraft:
    """Write a shard. What cannot be read is reported in ``lost``. Raises OSError if the output cannot be written."""
    report = ShardGraft(job.url, lost=list(job.look.lost))
    if not job.look.unread:
        try:
            _write(job, table, fields, report, stop)
        except OSError as error:
            if not isinstance(error, (SourceError, ShortSourceError)) and error.errno not in UNREADABLE:
                raise
            report = ShardGraft(job.url, lost=[*job.look.lost, str(error)])
    if report.output is None:
        job.target.unlink(missing_ok=True)  # the output of an earlier run would pass for this one's
    report.check()
    return report


def _write(job: GraftJob, table: GraftTable, fields: GraftedFields, report: ShardGraft, stop: Event) -> None:

    rows = numbers_in(rows_file(job.place))
    written = (rows >= 0) if job.drop_unmatched else (rows != DAMAGED)
    if not written.any():
        _count_unwritten(rows, job, report)
        return
    with seekable(job.url, job.place.parent, allow_pipe=job.allow_pipe, here=False) as (source, _):
        samples: Samples | NotedSamples = Samples(source, contents=False, keep=fields.read_json)
        if job.look.noted:
            samples = NotedSamples(notes_file(job.place), source, job.look.headers)
        pieces = _Pieces(job, table, fields, report)
        with tar_of_ranges(job.target) as tar:
            pieces.write(samples, rows, stop, tar)
        report.bytes = tar.size
    tally = pieces.tally
    report.set, report.missed, report.impossible = fields.set_in(tally, report.matched), tally.missed, tally.impossible
    report.left_out += Counter(job.look.left_out)
    report.output, report.uncounted = str(job.target), uncounted_of(job.place, written)


def _count_unwritten(rows: "NDArray[Any]", job: GraftJob, report: ShardGraft) -> None:
    report.samples = len(rows)
    report.damaged += Counter(job.look.troubles)
    report.unmatched, report.ambiguous = int((rows == ABSENT).sum()), int((rows == AMBIGUOUS).sum())
    report.without = int((rows == WITHOUT).sum())
    report.dropped = report.unmatched + report.ambiguous + report.without
    report.left_out += Counter(job.look.left_out)


class _Pieces:
    """Writes the pieces of the new shard, and counts."""

    def __init__(self, job: GraftJob, table: GraftTable, fields: GraftedFields, report: ShardGraft) -> None:
        self._job, self._table, self._fields, self._report = job, table, fields, report
        self.tally = FieldTally()

    def write(self, samples: Samples | NotedSamples, rows: "NDArray[Any]", stop: Event, tar: RangeWriter) -> None:
        """Append all samples to a tar; ranges that follow each other are copied as one. Raises SourceChangedError, OSError."""
        import numpy as np

        report, headers, source = self._report, 0, samples.source
        begin = end = 0  # the range that waits to be copied
        values = self._table.values_of(np.maximum(rows, ABSENT))
        for sample, row, found in zip(samples, chain(rows.tolist(), (None,)), chain(values, (None,)), strict=False):
            if row is None:
                raise SourceChangedError
            if not sample.number & 255 and stop.is_set():
                raise InterruptedError("given up")
            report.samples += 1
            pieces = self._sample(sample, samples, row, found)
            if not pieces:
                continue
            report.written += 1
            if headers < len(samples.headers):
                before = [header for header in samples.headers[headers:] if header[0] < sample.start]
                headers += len(before)
                pieces = [*before, *pieces]
            for piece in pieces:
                if not isinstance(piece, bytes) and piece[0] == end:
                    end = piece[1]
                    continue
                if end > begin:
                    tar.copy(source, begin, end)
                if isinstance(piece, bytes):
                    tar.add(piece)
                    begin = end = 0
                else:
                    begin, end = piece
        if end > begin:
            tar.copy(source, begin, end)
        if report.samples != len(rows) or input_identity(self._job.url) != self._job.look.inputs:
            raise SourceChangedError

    def _sample(
        self, sample: TarSample, samples: Samples | NotedSamples, row: int, values: list[Any] | None
    ) -> list[Range | bytes]:
        report = self._report
        if sample.trouble:
            report.damaged[sample.trouble] += 1
            return []
        if values is not None:
            pieces, possible = self._fields.pieces(
                sample, samples.read, values[1:], self.tally, extended=self._job.look.renaming
            )
            report.matched += possible
            return pieces
        report.unmatched += row == ABSENT
        report.ambiguous += row == AMBIGUOUS
        report.without += row == WITHOUT
        if self._job.drop_unmatched:
            report.dropped += 1
            return []
        return [(sample.start, sample.end)]
