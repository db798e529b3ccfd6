"""The second pass over a shard: its ranges are copied, and members with the values of the table put between them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, BinaryIO

from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.atomic import UNREADABLE
from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.source.base import Piece, Range, Source, SourceChangedError, SourceError

from .graft_report import ShardGraft
from .grafted_sample import FieldTally, GraftedFields
from .join_samples import AMBIGUOUS, DAMAGED, WITHOUT, cells_file, rows_file
from .look_shard import LookJob, ShardLook, notes_file, numbers_in, uncounted_of
from .noted_samples import ABSENT, NotedSamples, decoded_at_once, noted, read_notes

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class GraftJob:
    """One shard to write to ``target``; ``decided``: what decides its rows."""

    shard: LookJob
    look: ShardLook
    target: Path
    drop_unmatched: bool = False
    decided: str = ""

    @property
    def url(self) -> str:
        """The shard."""
        return self.shard.url

    @property
    def place(self) -> Path:
        """Where its samples and their rows are noted."""
        return self.shard.place


def graft_shard(job: GraftJob, stop: Event, *, fields: GraftedFields) -> ShardGraft:
    """Write a shard. What cannot be read is reported in ``lost``. Raises OSError if the output cannot be written."""
    report = ShardGraft(job.url, lost=list(job.look.lost))
    if not job.look.unread:
        try:
            _write(job, fields, report, stop)
        except OSError as error:
            if not isinstance(error, SourceError) and error.errno not in UNREADABLE:
                raise
            report = ShardGraft(job.url, lost=[*job.look.lost, str(error)])
    if report.output is None:
        job.target.unlink(missing_ok=True)  # the output of an earlier run would pass for this one's
    report.check()
    return report


def _write(job: GraftJob, fields: GraftedFields, report: ShardGraft, stop: Event) -> None:
    rows = numbers_in(rows_file(job.place))
    written = (rows >= 0) if job.drop_unmatched else (rows != DAMAGED)
    if not written.any():
        _count_unwritten(rows, job, report)
        return
    with job.shard.opened() as (source, _):
        report.bytes = write_pieces(job.target, source, grafted_pieces(job, source, fields, report, stop))
    report.output, report.uncounted = str(job.target), uncounted_of(job.place, written)


def grafted_pieces(
    job: GraftJob, source: Source, fields: GraftedFields, report: ShardGraft, stop: Event
) -> Iterator[Piece]:
    """Yield what the grafted shard consists of, without its end, and count its samples in ``report``.

    Raises SourceChangedError, also at the end, if the shard is not what it was; SourceError, OSError.
    """
    rows, pieces = numbers_in(rows_file(job.place)), _Pieces(job, fields, report)
    if job.look.noted:
        parts, headers = read_notes(notes_file(job.place)), job.look.headers
    else:
        samples = Samples(source, contents=False)
        parts, headers = noted(samples, fields.touched), samples.headers  # these grow while the parts are read
    with open(cells_file(job.place), "rb") as cells:
        yield from chain.from_iterable(pieces.all(source, parts, headers, (rows, cells), stop))
    tally = pieces.tally
    report.set, report.missed, report.impossible = fields.set_in(tally, report.matched), tally.missed, tally.impossible
    report.left_out += Counter(job.look.left_out)


def _count_unwritten(rows: "NDArray[Any]", job: GraftJob, report: ShardGraft) -> None:
    report.samples = len(rows)
    report.damaged += Counter(job.look.troubles)
    report.unmatched, report.ambiguous = int((rows == ABSENT).sum()), int((rows == AMBIGUOUS).sum())
    report.without = int((rows == WITHOUT).sum())
    report.dropped = report.unmatched + report.ambiguous + report.without
    report.left_out += Counter(job.look.left_out)


class _Pieces:
    """Makes the pieces of the new shard, and counts."""

    def __init__(self, job: GraftJob, fields: GraftedFields, report: ShardGraft) -> None:
        self._job, self._fields, self._report = job, fields, report
        self.tally = FieldTally()

    def all(
        self,
        source: Source,
        parts: Iterable[NotedSamples],
        headers: list[Range],
        chosen_by: tuple["NDArray[Any]", BinaryIO],
        stop: Event,
    ) -> Iterator[list[Piece]]:
        """Yield the pieces of each sample that is written, and the global headers before them, and count all samples.

        Raises SourceChangedError, also at the end, and OSError.
        """
        report, given = self._report, 0
        rows, cells = chosen_by
        for notes in parts:
            chosen = rows[report.samples :][: len(notes.keys)]
            if len(chosen) < len(notes.keys):
                raise SourceChangedError
            numbers, at = chosen.tolist(), 0
            for found in decoded_at_once(cells, numbers):
                if stop.is_set():
                    raise InterruptedError("given up")
                quick = self._fields.plain_pieces(notes, at, found, extended=self._job.look.renaming)
                for values, known in zip(found, quick, strict=True):
                    report.samples += 1
                    report.matched += known is not None
                    pieces = known or self._pieces(notes.sample(at), source, numbers[at], values)
                    if pieces:
                        report.written += 1
                        while given < len(headers) and headers[given][0] < notes.start[at]:
                            yield [headers[given]]
                            given += 1
                        yield pieces
                    at += 1
        if report.samples != len(rows) or self._job.shard.identity() != self._job.look.inputs:
            raise SourceChangedError

    def _pieces(self, sample: TarSample, source: Source, row: int, values: list[Any] | None) -> list[Piece]:
        report = self._report
        if sample.trouble:
            report.damaged[sample.trouble] += 1
            return []
        if values is not None:
            pieces, possible = self._fields.pieces(
                sample,
                lambda row: source.read_at(row[2], row[1]),
                values,
                self.tally,
                extended=self._job.look.renaming,
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
