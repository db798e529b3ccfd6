"""The contents of a filtered tar: ranges of the shard, and what stages changed."""

from collections.abc import Iterator, Sequence

from wdsflow.filtering.ledger.arrow_columns import in_utf8
from wdsflow.filtering.ledger.ledger_row import Row
from wdsflow.filtering.samples.staged_samples import Staging, pieces_of
from wdsflow.pieces.pieces import with_headers
from wdsflow.shards.samples.tar_sample import TarSample
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.source.base import Piece, Range, Source, SourceChangedError
from wdsflow.shards.tar.walk import Walk
from wdsflow.stages.base import SampleStage

_SMALL = 12 << 10  # mean bytes of a member


def kept_pieces(
    source: Source, url: str, stages: Sequence[SampleStage], kept: Sequence[Row], headers: Sequence[Range]
) -> Iterator[Piece]:
    """Yield the parts of the tar of the kept samples of a shard, in order, without the end of a tar.

    ``headers``: the ranges of its global headers. Raises SourceError, OSError.
    """
    if stages:
        yield from _staged(source, url, stages, kept, headers)
    else:
        yield from with_headers([(row.start, row.end) for row in kept], headers)


def _staged(
    source: Source, url: str, stages: Sequence[SampleStage], kept: Sequence[Row], headers: Sequence[Range]
) -> Iterator[Piece]:
    """Yield the parts of the output if stages changed samples: stages run again on kept samples."""
    wanted = {row.number: row for row in kept}
    waiting = sorted(headers, reverse=True)
    samples = Samples(source, contents=_are_small(source))
    staging = Staging(stages, samples, url)
    for sample in samples:
        row = wanted.pop(sample.number, None)
        if row is None:
            continue
        if not same_sample(row, sample):
            raise SourceChangedError
        while waiting and waiting[-1][0] < sample.start:
            yield waiting.pop()
        yield from pieces_of(sample, staging.fields(sample), samples)
    if wanted:
        raise SourceChangedError


def same_sample(row: Row, sample: TarSample | Row) -> bool:
    """Return whether a row of a ledger is about a sample, or about that of another row: the same key, in the same place."""
    same_key = row.key == sample.key or in_utf8(row.key) == in_utf8(sample.key)  # of a ledger it is plain
    return same_key and (row.start, row.end) == (sample.start, sample.end)


def _are_small(source: Source) -> bool:
    """Return whether members are so small that reading all is faster than fetching a few bytes of each."""
    first = next(iter(Walk(source)), None)
    rows = first.rows if first is not None else []
    return sum(row[1] for row in rows) < _SMALL * len(rows)
