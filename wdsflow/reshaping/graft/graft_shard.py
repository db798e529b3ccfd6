"""The second pass over a shard.

Its ranges are copied, and members with the table's values are inserted.
"""

from collections import Counter
from collections.abc import Iterator
from threading import Event
from typing import TYPE_CHECKING

from wdsflow.joining.value_lines import read_rows
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.source.base import Piece, Source

from .graft_job import GraftJob
from .graft_pieces import GraftPieces
from .graft_report import ShardGraft
from .matches import ABSENT, AMBIGUOUS, DAMAGED, ROWS, VALUES, WITHOUT
from .sample_notes import NotedSamples

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def graft_shard(job: GraftJob, report: ShardGraft, stop: Event) -> None:
    """Write a shard. Raises OSError if it cannot be read, or the output cannot be written."""
    report.lost += job.look.lost
    if job.look.is_unread:
        return
    outcomes = job.shard.read_numbers(ROWS)
    written = outcomes >= 0 if job.drop_unmatched else outcomes != DAMAGED
    if not written.any():
        _count_unwritten(job, outcomes, report)
        return
    with job.shard.open_shard() as (source, _):
        report.bytes = write_pieces(job.target, source, grafted_pieces(job, source, report, stop))
    report.output = str(job.target)
    report.uncounted = job.shard.count_uncounted(written)


def grafted_pieces(
    job: GraftJob, source: Source, report: ShardGraft, stop: Event
) -> Iterator[Piece]:
    """Yield the pieces of the grafted shard, without end-of-archive blocks.

    Counts its samples in ``report``.

    Raises SourceChangedError, also at the end, if the shard has changed; SourceError, OSError.
    """
    pieces = GraftPieces(job, source, report)
    if job.look.has_notes:
        notes = NotedSamples.read(job.shard.files)
        headers = job.look.headers
    else:
        samples = Samples(source, contents=False)
        fields = dict.fromkeys(field.field for field in job.fields)
        notes = NotedSamples.of(samples, list(fields))
        # They grow while the notes are read.
        headers = samples.headers
    rows = read_rows(job.shard.files.with_suffix(VALUES))
    outcomes = job.shard.read_numbers(ROWS)
    for sample_pieces in pieces.of_samples(notes, headers, outcomes, rows, stop):
        yield from sample_pieces
    for field in job.fields:
        count = report.matched - pieces.unset[str(field)]
        if count:
            report.set[str(field)] = count
    report.left_out += Counter(job.look.left_out)


def _count_unwritten(job: GraftJob, outcomes: "NDArray[np.int64]", report: ShardGraft) -> None:
    """Count the samples of a shard that is not written, as all of them are left out."""
    report.samples = len(outcomes)
    report.damaged = Counter(job.look.troubles)
    report.unmatched = int((outcomes == ABSENT).sum())
    report.ambiguous = int((outcomes == AMBIGUOUS).sum())
    report.without = int((outcomes == WITHOUT).sum())
    report.dropped = report.unmatched + report.ambiguous + report.without
    report.left_out += Counter(job.look.left_out)
