"""One shard in; one shard, its ledger and its quarantined samples out."""

import platform
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wdsflow.engines.base import Unfit
from wdsflow.engines.mark import Mark
from wdsflow.filtering.counting import count
from wdsflow.filtering.embeddings.columns import Vectors, columns_of
from wdsflow.filtering.embeddings.reuse import Reuse, stored_embeddings
from wdsflow.filtering.embeddings.shard import ShardEmbeddings
from wdsflow.filtering.embeddings.spool import Spool
from wdsflow.filtering.embeddings.stored import CopiedEmbeddings
from wdsflow.filtering.fields import Views
from wdsflow.filtering.identity import differences, digest, fingerprint, input_identity
from wdsflow.filtering.jsonl.names import is_lines
from wdsflow.filtering.jsonl.output import write_rows
from wdsflow.filtering.layout import Layout
from wdsflow.filtering.ledger import write_ledger
from wdsflow.filtering.modelled import Modelled
from wdsflow.filtering.opened import are_small, opened
from wdsflow.filtering.output import write_pieces, write_ranges
from wdsflow.filtering.program import Program, program_of
from wdsflow.filtering.quarantine import write_quarantine
from wdsflow.filtering.recipe import Recipe
from wdsflow.filtering.record import ShardRecord
from wdsflow.filtering.resolve import add_resolved
from wdsflow.filtering.row import Row
from wdsflow.filtering.samples import Samples
from wdsflow.filtering.scored import read_scored
from wdsflow.filtering.spool import seekable
from wdsflow.filtering.staged import Gone, Piece, Staging, pieces_of
from wdsflow.models.client import models_at
from wdsflow.models.place import ModelPlace
from wdsflow.shards.source import Source, SourceError
from wdsflow.stages.scores.view import ViewOptions


@dataclass(frozen=True)
class ShardTask:
    """One shard to work on. Picklable: workers get it, on this machine or another."""

    shard: int  # its place among all shards of the run
    url: str
    name: str  # of the output
    recipe: Recipe
    layout: Layout
    identity: str = ""  # digest of recipe, scores and their versions, for the manifest
    about: dict[str, Any] = field(default_factory=dict)  # for the ledger's metadata
    tars: bool = True  # False: the ledger only
    write: bool = True  # False: nothing at all
    budget: int = 1 << 30  # bytes that decoding one image may take
    allow_pipe: bool = False
    scored: Layout | None = None  # where a ledger of this shard lies that has all values; no sample is read then
    embedded: Reuse | None = None  # where a ledger of this shard lies whose embeddings are used
    compares: bool = False  # the folder has the values of scores that compare all samples
    models: ModelPlace = field(default_factory=ModelPlace)  # where scores' models run
    aside: frozenset[int] = frozenset()  # samples that killed who touched them

    def without(self, sample: int) -> "ShardTask":
        """Return the same task with a sample put aside."""
        return replace(self, aside=self.aside | {sample})


def run_shard(task: ShardTask, mark: Mark) -> ShardRecord:
    """Work on a shard. When this returns all its files are in place, under their names; before, none is half there.

    Raises SourceError where the shard cannot be read, LedgerError where its ledger is missing or is not of this
    shard, OSError where an output cannot be written, Unfit where other libraries are installed than where the run was
    started.
    """
    program = program_of(task.recipe)
    _check_versions(task, program)
    identity = input_identity(task.url)
    record = ShardRecord(task.shard, task.url, task.name, task.identity, identity)
    with (
        seekable(task.url, task.layout.spool, allow_pipe=task.allow_pipe) as (source, damage),
        _embeddings(task, program, record) as embeddings,
    ):
        if damage:
            record.damage.append(damage)
        if task.scored is None:
            rows = _score(task, source, program, record, mark, embeddings)
        else:
            rows = read_scored(task.scored, task.name, record)
        if task.compares:
            add_resolved(program, rows, task.layout, task.name)
        if task.compares or not program.dataset_calls:
            for row in rows:
                program.decide(row)
            if task.tars:
                _part_twins(rows)
        count(rows, record)
        record.check()
        if task.write:
            if input_identity(task.url) != identity:
                raise SourceError("io", "it changed while it was read")
            _write(task, source, program, rows, record, _vectors(task, embeddings))
    return record


def _embeddings(task: ShardTask, program: Program, record: ShardRecord) -> ShardEmbeddings:
    if task.scored is not None:
        return ShardEmbeddings()
    stored = stored_embeddings(program, record, task.embedded) if task.embedded is not None else None
    keep = task.recipe.embeddings and task.write
    spool = Spool(columns_of(program.scores.values()), task.layout.spool) if keep else None
    return ShardEmbeddings(spool=spool, stored=stored)


def _vectors(task: ShardTask, embeddings: ShardEmbeddings) -> Vectors | None:
    if task.recipe.embeddings and task.scored is not None:
        return CopiedEmbeddings(task.scored.ledger(task.name))
    return embeddings.spool


def _check_versions(task: ShardTask, program: Program) -> None:
    expected, found = task.about.get("identities"), program.score_identities
    if expected is not None and expected != found:
        what = "; ".join(differences(expected, found))
        raise Unfit(f"{platform.node()} would compute other values than the machine that started the run: {what}")


def _score(
    task: ShardTask, source: Source, program: Program, record: ShardRecord, mark: Mark, embeddings: ShardEmbeddings
) -> list[Row]:
    """Read all samples and compute what the predicate needs to be decided."""
    options = ViewOptions(images=task.recipe.images, captions=task.recipe.captions, budget=task.budget)
    samples, views = opened(source, task.url, task.recipe, options, contents=program.reads_contents)
    asked: AbstractContextManager[Modelled | None] = nullcontext()
    if program.model_calls:
        asked = Modelled(program, models_at(task.models, task.shard), mark, embeddings)
    with asked as modelled:
        rows = _read(task, samples, views, program, modelled, mark)
    _find_scattered(rows)
    record.members, record.headers = samples.members, samples.headers
    record.left_out = dict(sorted(samples.left_out.items()))
    record.damage += samples.damage
    return rows


def _read(
    task: ShardTask, samples: Samples, views: Views, program: Program, modelled: Modelled | None, mark: Mark
) -> list[Row]:
    rows = []
    for sample in samples:
        row = Row(sample.number, sample.key, sample.start, sample.end)
        row.fields, row.trouble = views.fields_of(sample), sample.trouble
        rows.append(row)
        if sample.number in task.aside:
            row.trouble = "killed-worker"
        if not row.trouble:
            mark.set(sample.number)
            try:
                view = views.view(sample)
            except Gone as gone:
                row.trouble, row.about = gone.trouble, gone.detail
                continue
            program.score(row, view)
            if modelled is not None:
                modelled.add(row, view)
    mark.set(-1)
    if modelled is not None:
        modelled.finish()
    return rows


def _find_scattered(rows: Iterable[Row]) -> None:
    """Find samples whose members do not lie together: each part alone would be a sample that lacks something."""
    parts: dict[str, Row] = {}
    for row in rows:
        first = parts.setdefault(row.key, row)
        if first is not row and set(first.fields).isdisjoint(row.fields):
            first.trouble = row.trouble = "scattered"


def _part_twins(rows: Iterable[Row]) -> None:
    """Put aside what would follow a sample of the same key, now that others between them are gone.

    Readers would take the two for one.
    """
    before: Row | None = None
    for row in rows:
        if row.outcome == "kept":
            if before is not None and before.key == row.key and before.number != row.number - 1:
                row.quarantine("same-key", "the sample before it in the output has the same key")
                continue
            before = row


def _write(
    task: ShardTask, source: Source, program: Program, rows: list[Row], record: ShardRecord, vectors: Vectors | None
) -> None:
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
    write_ledger(ledger, rows, program.kinds, program.dataset_calls, about, vectors)
    record.ledger = fingerprint(str(ledger))
    if not task.tars:
        return
    if is_lines(task.url):
        write_rows(layout, task.name, source, rows, record, empty=task.recipe.empty == "write")
        return
    record.quarantine = write_quarantine(layout.quarantine(task.name), source, task.url, rows, record.headers)
    target = layout.tar(task.name)
    if record.kept or task.recipe.empty == "write":
        kept = [row for row in rows if row.outcome == "kept"]
        if task.recipe.stages:
            write_pieces(target, source, _staged(task, source, kept, record))
        else:
            write_ranges(target, source, [*record.headers, *((row.start, row.end) for row in kept)])
        record.output = fingerprint(str(target))
    else:
        Path(target).unlink(missing_ok=True)  # of a run that was killed, when the shard was another


def _staged(task: ShardTask, source: Source, kept: list[Row], record: ShardRecord) -> Iterator[Piece]:
    """Yield what the output consists of where stages changed samples: they are applied again, to those that stay."""
    wanted = {row.number: row for row in kept}
    headers = sorted(record.headers, reverse=True)
    samples = Samples(source, contents=are_small(source))
    staging = Staging(task.recipe.stages, samples, task.url)
    for sample in samples:
        row = wanted.pop(sample.number, None)
        if row is None:
            continue
        if (row.key, row.start) != (sample.key, sample.start):
            raise SourceError("io", "it changed while it was read")
        while headers and headers[-1][0] < sample.start:
            yield headers.pop()
        yield from pieces_of(sample, staging.fields(sample), samples)
    if wanted:
        raise SourceError("io", "it changed while it was read")


def task_identity(recipe: Recipe, identities: dict[str, Any]) -> str:
    """Return the digest by which a later run tells whether a shard is done."""
    return digest({"recipe": recipe.to_dict(), **identities})
