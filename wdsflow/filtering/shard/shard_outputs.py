"""The files of a shard, written when all outcomes are determined: output, quarantine and ledger."""

from collections.abc import Iterator, Sequence

from wdsflow.filtering.ledger.sample_table import LedgerRow, SampleTable
from wdsflow.filtering.ledger.write_ledger import Vectors, write_ledger
from wdsflow.filtering.predicates.values import Unknown
from wdsflow.filtering.samples.staged_pieces import pieces_of
from wdsflow.filtering.samples.staging import Staging
from wdsflow.pieces.pieces import with_headers
from wdsflow.pieces.writer import write_pieces
from wdsflow.records.run_folder import Layout
from wdsflow.shards.atomic import write_json_lines
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import Piece, Range, Source, SourceChangedError
from wdsflow.shards.tar.walk import Walk
from wdsflow.stages.base import SampleStage
from wdsflow.text.utf8 import in_utf8

from .open_shard import OpenShard
from .resized_images import ResizedImages
from .same_sample import same_sample

# Mean bytes of a member: if they are smaller, reading all
# of them is faster than reading a few bytes of each.
_SMALL = 12 << 10


def kept_pieces(
    source: Source,
    url: str,
    stages: Sequence[SampleStage],
    kept: Sequence[LedgerRow],
    headers: Sequence[Range],
    resized: ResizedImages | None = None,
) -> Iterator[Piece]:
    """Yield the pieces of a tar of the kept samples of a shard, in order.

    There are no end-of-archive blocks.

    Stages run again on kept samples. ``headers``: the ranges of its global headers. ``resized``:
    images to replace. Raises SourceError, OSError.
    """
    if not stages and resized is None:
        yield from with_headers([(row.start, row.end) for row in kept], headers)
        return
    missing = {row.number: row for row in kept}
    remaining_headers = sorted(headers, reverse=True)
    first = next(iter(Walk(source)), None)
    sizes = [row[1] for row in first.rows] if first is not None else []
    samples = Samples(source, contents=sum(sizes) < _SMALL * len(sizes))
    staging = Staging(stages, samples, url)
    for sample in samples:
        row = missing.pop(sample.number, None)
        if row is None:
            continue
        if not same_sample(row, sample):
            raise SourceChangedError
        while remaining_headers and remaining_headers[-1][0] < sample.start:
            yield remaining_headers.pop()
        fields = staging.fields(sample)
        if resized is not None:
            fields = resized.with_new_images(row, fields)
        yield from pieces_of(sample, fields, samples)
    if missing:
        raise SourceChangedError


def write_quarantine(
    layout: Layout,
    name: str,
    source: Source,
    url: str,
    samples: SampleTable,
    headers: Sequence[Range],
) -> dict[str, object] | None:
    """Write the quarantined samples of a shard as a tar, and a file with their reasons.

    The file is next to the tar and has one line for each sample.

    A line has key, shard, sample, offset, size, error, stage (the stage or score that failed, or
    "tar"), detail. Returns the identity of the first. If no sample is quarantined, files of an
    earlier run are removed. Raises OSError, SourceChangedError.
    """
    quarantined = [row for row in samples.rows if row.outcome == "quarantined"]
    path, reasons = layout.quarantine(name), layout.reasons(name)
    if not quarantined:
        path.unlink(missing_ok=True)
        reasons.unlink(missing_ok=True)
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json_lines(reasons, (_reason_record(samples, row, url) for row in quarantined))
    ranges = with_headers([(row.start, row.end) for row in quarantined], headers)
    write_pieces(path, source, ranges)
    return fingerprint(str(path))


def _reason_record(samples: SampleTable, row: LedgerRow, url: str) -> dict[str, object]:
    return {
        "key": in_utf8(row.key),
        "shard": url,
        "sample": row.number,
        "offset": row.start,
        "size": row.end - row.start,
        "error": row.error,
        "stage": cause_of_quarantine(samples, row),
        "detail": in_utf8(row.detail),
    }


def cause_of_quarantine(samples: SampleTable, row: LedgerRow) -> str:
    """Return the stage or score whose error quarantined a sample.

    "tar" if the archive itself is the reason.
    """
    if row.trouble:
        return row.trouble.partition(":")[0] if ":" in row.trouble else "tar"
    if (row.error or "").startswith("resize:"):
        return "resize"
    term = None if row.judgement is None else row.judgement.term
    for call in () if term is None else term.scores:
        value = samples.columns[call].get(row.number)
        if isinstance(value, Unknown) and value.slug == row.error:
            return str(call)
    return "where"


def write_shard(shard: OpenShard, table: SampleTable, vectors: Vectors | None) -> None:
    """Write ledger, output and quarantine of a shard, and add them to its record.

    Raises OSError, SourceError.
    """
    task, plan, record = shard.task, shard.plan, shard.record
    layout = task.layout
    ledger = layout.ledger(task.name)
    metadata = {
        **task.metadata,
        "shard": {"url": task.url, "name": task.name, "number": task.shard},
        "input": record.input,
        "headers": record.headers,
        "members": record.members,
        "left_out": record.left_out,
        "damage": record.damage,
    }
    scratch = layout.spool / ledger.stem
    write_ledger(ledger, table, plan.kinds, plan.gathered_calls, metadata, vectors, scratch)
    record.ledger = fingerprint(str(ledger))
    if not task.tars:
        return
    record.quarantine = write_quarantine(
        layout, task.name, shard.source, task.url, table, record.headers
    )
    _write_output(shard, [row for row in table.rows if row.outcome == "kept"])


def _write_output(shard: OpenShard, kept: Sequence[LedgerRow]) -> None:
    task, record = shard.task, shard.record
    target = task.layout.tar(task.name)
    if kept or task.recipe.empty == "write":
        pieces = kept_pieces(
            shard.source, task.url, task.recipe.stages, kept, record.headers, shard.resized
        )
        write_pieces(target, shard.source, pieces)
        record.output = fingerprint(str(target))
    else:
        # A killed run may have written one, before the shard changed.
        target.unlink(missing_ok=True)
