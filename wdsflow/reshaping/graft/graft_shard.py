"""The second pass over a shard: its ranges are copied, and members with the values of the table put between them."""

import errno
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from wdsflow.shards.samples.copy_ranges import write_pieces
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
from .look_shard import DAMAGED, WITHOUT, ShardLook

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CANNOT_READ = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT)


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
            if not isinstance(error, (SourceError, ShortSourceError)) and error.errno not in _CANNOT_READ:
                raise
            report = ShardGraft(job.url, lost=[*job.look.lost, str(error)])
    if report.output is None:
        job.target.unlink(missing_ok=True)  # the output of an earlier run would pass for this one's
    report.check()
    return report


def _write(job: GraftJob, table: GraftTable, fields: GraftedFields, report: ShardGraft, stop: Event) -> None:
    import numpy as np

    rows = np.load(rows_file(job.place))
    if not _is_written(rows, drop=job.drop_unmatched):
        _count_unwritten(rows, job, report)
        return
    with seekable(job.url, job.place.parent, allow_pipe=job.allow_pipe, here=False) as (source, _):
        samples = Samples(source, contents=False)
        pieces = GraftedPieces(job, table, fields, report)
        report.bytes = write_pieces(job.target, source, pieces.of(samples, rows, stop))
    tally = pieces.tally
    report.set, report.missed, report.impossible = tally.set, tally.missed, tally.impossible
    report.left_out += samples.left_out
    report.output = str(job.target)


def _is_written(rows: "NDArray[Any]", *, drop: bool) -> bool:
    return bool(((rows >= 0) if drop else (rows != DAMAGED)).any())


def _count_unwritten(rows: "NDArray[Any]", job: GraftJob, report: ShardGraft) -> None:
    report.samples = len(rows)
    report.damaged += Counter(job.look.troubles)
    report.unmatched, report.ambiguous = int((rows == ABSENT).sum()), int((rows == AMBIGUOUS).sum())
    report.without = int((rows == WITHOUT).sum())
    report.dropped = report.unmatched + report.ambiguous + report.without
    report.left_out += Counter(job.look.left_out)


class GraftedPieces:
    """Yields the pieces of the new shard, and counts."""

    def __init__(self, job: GraftJob, table: GraftTable, fields: GraftedFields, report: ShardGraft) -> None:
        self._job, self._table, self._fields, self._report = job, table, fields, report
        self.tally = FieldTally()

    def of(self, samples: Samples, rows: "NDArray[Any]", stop: Event) -> Iterator[Range | bytes]:
        """Yield the parts of the new shard, by the row of each sample."""
        import numpy as np

        report, headers = self._report, 0
        values = self._table.values_of(np.maximum(rows, ABSENT))
        for sample in samples:
            if stop.is_set():
                raise InterruptedError("given up")
            if sample.number >= len(rows):
                raise SourceChangedError
            report.samples += 1
            pieces = self.sample(sample, samples, int(rows[sample.number]), next(values))
            if not pieces:
                continue
            while headers < len(samples.headers) and samples.headers[headers][0] < sample.start:
                yield samples.headers[headers]
                headers += 1
            report.written += 1
            yield from pieces
        if report.samples != len(rows) or input_identity(self._job.url) != self._job.look.inputs:
            raise SourceChangedError

    def sample(self, sample: TarSample, samples: Samples, row: int, values: list[Any] | None) -> list[Range | bytes]:
        """Return the parts of a sample; none leaves it out."""
        report = self._report
        if sample.trouble:
            report.damaged[sample.trouble] += 1
            return []
        if values is not None:
            pieces, possible = self._fields.pieces(sample, samples.read, values[1:], self.tally)
            report.matched += possible
            return pieces
        report.unmatched += row == ABSENT
        report.ambiguous += row == AMBIGUOUS
        report.without += row == WITHOUT
        if self._job.drop_unmatched:
            report.dropped += 1
            return []
        return [(sample.start, sample.end)]
