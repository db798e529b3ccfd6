"""Processes one shard: its output, its ledger and its quarantined samples."""

import platform
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from wdsflow.engines.base import Unfit
from wdsflow.engines.peer import Mark
from wdsflow.filtering.deciding.compare_samples import add_resolved
from wdsflow.filtering.deciding.failures import Strikes, struck_in
from wdsflow.filtering.deciding.model_windows import Modelled
from wdsflow.filtering.deciding.program import Program, program_of
from wdsflow.filtering.folder.outcome_counts import count
from wdsflow.filtering.folder.shard_record import ShardFailure, ShardRecord
from wdsflow.filtering.kinds import kind_of
from wdsflow.filtering.ledger.embeddings import Spool, columns_of
from wdsflow.filtering.ledger.known_embeddings import (
    CopiedEmbeddings,
    ShardEmbeddings,
    own_embeddings,
    stored_embeddings,
)
from wdsflow.filtering.ledger.ledger import Vectors, read_scored
from wdsflow.filtering.ledger.ledger_row import LedgerError, OtherShard, Row, part_twins, read_about
from wdsflow.filtering.recipe.recipe import Recipe, differences, digest
from wdsflow.filtering.samples.staged_samples import Gone
from wdsflow.filtering.samples.tar_fields import Views
from wdsflow.filtering.where.language.values import Call
from wdsflow.models.processes import models_at
from wdsflow.shards.atomic import UNREADABLE
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source.base import Source, SourceChangedError, SourceError
from wdsflow.shards.source.unpack import seekable
from wdsflow.stages.scores.sample_view import ViewOptions

from .kept_pieces import same_sample
from .known_rows import KILLED, KnownRows, add_cheap, lacking
from .shard_outputs import write_shard
from .shard_task import ShardTask


def run_shard(task: ShardTask, mark: Mark) -> ShardRecord | ShardFailure:
    """Process a shard. When this returns, all its files are in place; before, none is partially visible.

    Returns a failure if the shard cannot be read, or its ledger is missing or belongs to another shard. Raises OSError
    if an output cannot be written, Unfit if other libraries are installed than if the run was started.
    """
    failure = partial(ShardFailure, task.shard, task.url, task.name)
    try:
        return _work(task, mark)
    except SourceError as error:
        return failure(str(error), error.kind)
    except LedgerError as error:
        return failure(str(error), "ledger", getattr(error, "call", ""))
    except OSError as error:
        if error.filename is None and error.errno not in UNREADABLE:  # of a file that was open
            error.filename = str(task.layout.folder)
        raise


def _work(task: ShardTask, mark: Mark) -> ShardRecord:
    program = program_of(task.recipe)
    _check_versions(task, program)
    identity = input_identity(task.url)
    record = ShardRecord(task.shard, task.url, task.name, task.identity, identity)
    with (
        seekable(task.url, task.layout.spool, allow_pipe=task.allow_pipe) as (source, damage),
        _embeddings(task, program, record, known := _known(task, program, record)) as embeddings,
    ):
        if damage:
            record.damage.append(damage)
        if task.scored is None:
            rows = _score(task, source, program, record, mark, (embeddings, known))
        else:
            rows = read_scored(task.scored, task.name, record)
            _refuse_other_samples(task, task.scored.ledger(task.name), source, rows, record)
        if task.compares:
            add_resolved(program, rows, task.layout, task.name)
        if task.scored is not None:
            add_cheap(task, source, program, rows, mark)
        if task.compares or not program.dataset_calls:
            for row in rows:
                program.decide(row)
            if task.tars:
                part_twins(rows)
                kind, kept = kind_of(task.url, task.recipe.lines_to), (row for row in rows if row.outcome == "kept")
                kind.quarantine_uncopyable(source, task.url, task.recipe, kept)
        count(rows, record, program)
        computes = record.failed and task.scored is None
        record.struck = struck_in(rows, lacking(program, known)) if computes else {}
        record.check()
        if task.write:
            if input_identity(task.url) != identity:
                raise SourceChangedError
            try:
                write_shard(task, source, program, rows, record, _vectors(task, embeddings))
            except SourceChangedError:
                if task.scored is None:
                    raise
                raise OtherShard(task.scored.ledger(task.name), task.url) from None
    return record


def _known(task: ShardTask, program: Program, record: ShardRecord) -> KnownRows | None:
    return KnownRows(task.known, record, program) if task.known is not None and task.scored is None else None


def _refuse_other_samples(
    task: ShardTask, ledger: Path, source: Source, rows: Sequence[Row], record: ShardRecord
) -> None:
    """Raise OtherShard if a shard that was written again since it was scored does not have the samples of its ledger.

    Its size and some of its bytes are those that were scored, otherwise ``same_shard`` has refused it.
    """
    then, now = read_about(ledger)["input"].get("changed"), record.input.get("changed")
    if then == now:
        return
    samples, _ = kind_of(task.url).opened(source, task.url, task.recipe, ViewOptions(), contents=False)
    for row, sample in zip_longest(rows, samples):
        if row is None or sample is None or not same_sample(row, sample):
            raise OtherShard(ledger, record.url)


def _embeddings(task: ShardTask, program: Program, record: ShardRecord, known: KnownRows | None) -> ShardEmbeddings:
    if task.scored is not None:
        return ShardEmbeddings()
    stored = stored_embeddings(program, record, task.embedded) if task.embedded is not None else None
    keep = task.recipe.embeddings and task.write
    own = own_embeddings(program, known.about, known.path) if keep and known is not None else None
    spool = Spool(columns_of(program.scores.values()), task.layout.spool) if keep else None
    return ShardEmbeddings(spool=spool, stored=stored, own=own)


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
    task: ShardTask,
    source: Source,
    program: Program,
    record: ShardRecord,
    mark: Mark,
    has: tuple[ShardEmbeddings, KnownRows | None],
) -> list[Row]:
    """Read all samples and compute the scores that decide the predicate, but for those that are known."""
    options = ViewOptions(images=task.recipe.images, captions=task.recipe.captions, budget=task.budget)
    embeddings, known = has
    calls = lacking(program, known)
    contents = program.reads_contents(known.calls if known is not None else ())
    samples, views = kind_of(task.url).opened(source, task.url, task.recipe, options, contents=contents)
    strikes = Strikes(calls)
    with _modelled(task, program, mark, strikes, embeddings, calls) as modelled:
        rows = _read(task, samples, views, program, (modelled, strikes), mark, has)
    if known is not None:
        known.check(rows)
    _find_scattered(rows)
    record.members, record.headers = samples.members, samples.headers
    record.left_out = dict(sorted(samples.left_out.items()))
    record.damage += samples.damage
    return rows


def _modelled(
    task: ShardTask,
    program: Program,
    mark: Mark,
    strikes: Strikes,
    embeddings: ShardEmbeddings,
    calls: Sequence[Call],
) -> AbstractContextManager[Modelled | None]:
    if program.model_calls.isdisjoint(calls):
        return nullcontext()
    served = task.embedded.served if task.embedded is not None else ()
    wanted = [model for model in program.models_of(calls) if model not in served]
    models = models_at(task.models, task.shard, wanted)
    return Modelled(program, models, mark, strikes, embeddings)


def _read(
    task: ShardTask,
    samples: Samples,
    views: Views,
    program: Program,
    by: tuple[Modelled | None, Strikes],
    mark: Mark,
    has: tuple[ShardEmbeddings, KnownRows | None],
) -> list[Row]:
    rows, (modelled, strikes), (embeddings, known) = [], by, has
    for sample in samples:
        row = Row(sample.number, sample.key, sample.start, sample.end)
        row.fields, row.trouble = views.fields_of(sample), sample.trouble
        rows.append(row)
        if known is not None:
            known.fill(row)
            embeddings.keep_own(row)
        if sample.number in task.aside:
            row.trouble = KILLED
        if not row.trouble:
            mark.set(sample.number)
            try:
                view = views.view(sample)
            except Gone as gone:
                row.trouble, row.about = gone.trouble, gone.detail
                continue
            program.score(row, view)
            if strikes:
                strikes.see(row)
            if modelled is not None:
                modelled.add(row, view)
    mark.set(-1)
    if modelled is not None:
        modelled.finish()
    return rows


def _find_scattered(rows: Iterable[Row]) -> None:
    """Find samples whose members are not next to each other: each part would be an incomplete sample."""
    parts: dict[str, Row] = {}
    for row in rows:
        first = parts.setdefault(row.key, row)
        if first is not row and set(first.fields).isdisjoint(row.fields):
            first.trouble, row.trouble = first.trouble or "scattered", row.trouble or "scattered"


def task_identity(recipe: Recipe, identities: dict[str, Any]) -> str:
    """Return the digest by which a later run returns whether a shard is done."""
    return digest({"recipe": recipe.to_dict(), **identities})
