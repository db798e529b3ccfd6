"""The task of one shard, and its files, written when all outcomes are known: output, quarantine and ledger."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from wdsflow.filtering.deciding.program import Program
from wdsflow.filtering.ledger.embeddings import Reuse
from wdsflow.filtering.ledger.ledger import Vectors, write_ledger
from wdsflow.filtering.ledger.sample_table import Row, SampleTable, in_utf8
from wdsflow.filtering.predicates.values import Unknown
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.run_folder import Layout, ShardRecord
from wdsflow.filtering.samples import Staging, pieces_of
from wdsflow.models.model_location import ModelLocation
from wdsflow.pieces.pieces import with_headers
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.atomic import write_json_lines
from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import Piece, Range, Source, SourceChangedError
from wdsflow.shards.tar.walk import Walk
from wdsflow.stages.base import SampleStage

from .resized_images import ResizedImages


@dataclass(frozen=True)
class ShardTask:
    """The task of one shard. Picklable, for workers on this machine or another."""

    # Its index among all shards of the run.
    shard: int
    url: Shard
    # Of the output.
    name: str
    recipe: Recipe
    layout: Layout
    # Digest of recipe, scores and their versions, for the manifest.
    identity: str = ""
    # For the ledger's metadata.
    about: dict[str, object] = field(default_factory=dict)
    # False: only the ledger.
    tars: bool = True
    # False: no files.
    write: bool = True
    # Bytes that decoding one image may take.
    budget: int = 1 << 30
    allow_pipe: bool = False
    # A folder with a ledger of this shard; only samples that need a score that it lacks are read.
    scored: Layout | None = None
    # A folder with a ledger of this shard that has some of the values.
    known: Layout | None = None
    # It has them for all samples, not only for those that needed them.
    known_for_all: bool = True
    # A folder with a ledger of this shard whose embeddings are used.
    embedded: Reuse | None = None
    # The folder has the values of scores that compare all samples.
    compares: bool = False
    # Where scores' models run.
    models: ModelLocation = field(default_factory=ModelLocation)
    # Samples that killed their process.
    aside: frozenset[int] = frozenset()

    def without(self, sample: int) -> "ShardTask":
        """Return the same task with a quarantined sample."""
        return replace(self, aside=self.aside | {sample})


# Mean bytes of a member.
_SMALL = 12 << 10


def kept_pieces(
    source: Source,
    url: str,
    stages: Sequence[SampleStage],
    kept: Sequence[Row],
    headers: Sequence[Range],
    resized: ResizedImages | None = None,
) -> Iterator[Piece]:
    """Yield the pieces of a tar of the kept samples of a shard, in order, without end-of-archive blocks.

    Stages run again on kept samples. ``headers``: the ranges of its global headers. ``resized``:
    images to replace. Raises SourceError, OSError.
    """
    if not stages and resized is None:
        yield from with_headers([(row.start, row.end) for row in kept], headers)
        return
    wanted = {row.number: row for row in kept}
    waiting = sorted(headers, reverse=True)
    first = next(iter(Walk(source)), None)
    sizes = [row[1] for row in first.rows] if first is not None else []
    # If members are small, reading all of them is faster than reading a few bytes of each.
    samples = Samples(source, contents=sum(sizes) < _SMALL * len(sizes))
    staging = Staging(stages, samples, url)
    for sample in samples:
        row = wanted.pop(sample.number, None)
        if row is None:
            continue
        if not same_sample(row, sample):
            raise SourceChangedError
        while waiting and waiting[-1][0] < sample.start:
            yield waiting.pop()
        fields = staging.fields(sample)
        yield from pieces_of(sample, resized.replaced(row, fields) if resized else fields, samples)
    if wanted:
        raise SourceChangedError


def same_sample(row: Row, sample: TarSample | Row) -> bool:
    """Return whether a row of a ledger and a sample, or another row, have the same key at the same place."""
    # A ledger has the encoded form.
    same_key = row.key == sample.key or in_utf8(row.key) == in_utf8(sample.key)
    return same_key and (row.start, row.end) == (sample.start, sample.end)


def write_quarantine(
    layout: Layout,
    name: str,
    source: Source,
    url: str,
    samples: SampleTable,
    headers: Sequence[Range],
) -> dict[str, object] | None:
    """Write quarantined samples of a shard as a tar, and a file with their reasons next to it, one line each.

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
    write_json_lines(reasons, (_reason(samples, row, url) for row in quarantined))
    ranges = with_headers([(row.start, row.end) for row in quarantined], headers)
    write_pieces(path, source, ranges)
    return fingerprint(str(path))


def _reason(samples: SampleTable, row: Row, url: str) -> dict[str, object]:
    return {
        "key": in_utf8(row.key),
        "shard": url,
        "sample": row.number,
        "offset": row.start,
        "size": row.end - row.start,
        "error": row.error,
        "stage": stage_of(samples, row),
        "detail": in_utf8(row.detail),
    }


def stage_of(samples: SampleTable, row: Row) -> str:
    """Return the stage or score whose error quarantined a sample, "tar" if the archive itself is the reason."""
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


def write_shard(
    task: ShardTask,
    source: Source,
    program: Program,
    samples: SampleTable,
    record: ShardRecord,
    vectors: Vectors | None,
    resized: ResizedImages | None,
) -> None:
    """Write ledger, output and quarantine of a shard, and add them to its record. Raises OSError, SourceError."""
    layout = task.layout
    ledger = layout.ledger(task.name)
    about = {
        **task.about,
        "shard": {"url": task.url, "name": task.name, "number": task.shard},
        "input": record.input,
        "headers": record.headers,
        "members": record.members,
        "left_out": record.left_out,
        "damage": record.damage,
    }
    write_ledger(
        ledger,
        samples,
        program.kinds,
        program.gathered_calls,
        about,
        vectors,
        layout.spool / ledger.stem,
    )
    record.ledger = fingerprint(str(ledger))
    if not task.tars:
        return
    record.quarantine = write_quarantine(
        layout, task.name, source, task.url, samples, record.headers
    )
    kept = [row for row in samples.rows if row.outcome == "kept"]
    _write_output(task, source, kept, record, resized)


def _write_output(
    task: ShardTask,
    source: Source,
    kept: Sequence[Row],
    record: ShardRecord,
    resized: ResizedImages | None,
) -> None:
    target = task.layout.tar(task.name)
    if kept or task.recipe.empty == "write":
        pieces = kept_pieces(source, task.url, task.recipe.stages, kept, record.headers, resized)
        write_pieces(target, source, pieces)
        record.output = fingerprint(str(target))
    else:
        # A killed run may have left one, before the shard changed.
        target.unlink(missing_ok=True)
