"""Processes one shard: its output, its ledger and its quarantined samples."""

import platform
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import zip_longest
from pathlib import Path

from wdsflow.engines.base import Unfit
from wdsflow.engines.peer import Mark
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.broken_scores import always_failing
from wdsflow.filtering.deciding.compared_values import add_compared
from wdsflow.filtering.deciding.decider import decider_of, set_outcomes
from wdsflow.filtering.deciding.direct_scores import ViewedSample
from wdsflow.filtering.deciding.outcome_counts import count_outcomes
from wdsflow.filtering.deciding.plan import FilterPlan, plan_of
from wdsflow.filtering.ledger.embeddings import (
    CopiedEmbeddings,
    ShardEmbeddings,
    Spool,
    columns_of,
    own_embeddings,
    stored_embeddings,
)
from wdsflow.filtering.ledger.ledger import Vectors, read_ledger, read_scored
from wdsflow.filtering.ledger.ledger_metadata import LedgerError, OtherShard, read_about, same_shard
from wdsflow.filtering.ledger.sample_table import Row, SampleTable, part_twins
from wdsflow.filtering.predicates.values import Unknown
from wdsflow.filtering.recipe.recipe import differences
from wdsflow.filtering.run_folder import Layout, ShardFailure, ShardRecord
from wdsflow.filtering.samples import Gone, ShardView, Views
from wdsflow.shards.atomic import UNREADABLE
from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source.base import Source, SourceChangedError, SourceError
from wdsflow.shards.source.opening import seekable
from wdsflow.stages.scores.sample_view import ViewOptions

from .resized_images import ResizedImages
from .score_samples import SampleScorer
from .shard_outputs import ShardTask, same_sample, write_shard
from .shard_progress import ShardProgress

_OTHERS = "its ledger has other samples; measure it again with --restart"
# The trouble of a sample that killed its process.
KILLED = "killed-worker"


class KnownRows:
    """The samples of a ledger with fewer scores, whose values are reused.

    ``calls``: the scores that need not be computed. ``for_all``: whether the ledger has its scores
    for all samples, not only for those that needed them. Raises LedgerError if the ledger is of
    another shard.
    """

    def __init__(
        self, layout: Layout, record: ShardRecord, plan: FilterPlan, *, for_all: bool
    ) -> None:
        path = layout.ledger(record.name)
        self._samples, about = read_ledger(path)
        same_shard(about, record, path)
        self.path, self.about = path, about
        there = set(about["identities"])
        compared = frozenset(plan.dataset_calls)
        self._columns = frozenset(
            call for call in plan.scores if str(call) in there and call not in compared
        )
        self.calls = self._columns if for_all else frozenset[ScoreCall]()
        self._gathered = frozenset(plan.gathered_calls)

    def table(self) -> SampleTable:
        """Return a table with the known columns, and no sample yet."""
        known, samples = self._samples, SampleTable()
        for call in self._columns:
            samples.columns[call] = known.columns[call]
        # Results of comparisons are not kept: they are computed again.
        for call in self._gathered:
            samples.gathered[call] = gathered = known.gathered[call]
            for number, value in known.columns[call].items():
                if isinstance(value, Unknown) and number not in gathered:
                    samples.columns[call][number] = value
        return samples

    def fill(self, row: Row) -> None:
        """Set what is known of a sample besides its values. Raises SourceChangedError if the sample differs."""
        if row.number >= len(self._samples.rows):
            raise SourceChangedError(_OTHERS)
        known = self._samples.rows[row.number]
        if not same_sample(known, row):
            raise SourceChangedError(_OTHERS)
        row.digest, row.trouble = known.digest, KILLED if known.trouble == KILLED else row.trouble

    def check(self, samples: SampleTable) -> None:
        """Raise SourceChangedError if the number of samples differs."""
        if len(samples.rows) != len(self._samples.rows):
            raise SourceChangedError(_OTHERS)


def run_shard(task: ShardTask, mark: Mark) -> ShardRecord | ShardFailure:
    """Process a shard. On return all its files are in place; before, none is partially visible.

    Returns a failure if the shard cannot be read, or its ledger is missing or belongs to another
    shard. Raises OSError if an output cannot be written, Unfit if installed libraries differ from
    those at the start of the run.
    """
    failure = partial(ShardFailure, task.shard, task.url, task.name)
    try:
        return _Job(task, mark).run()
    except SourceError as error:
        return failure(str(error), error.kind)
    except LedgerError as error:
        return failure(str(error), "ledger", getattr(error, "call", ""))
    except OSError as error:
        # Of a file that was open.
        if error.filename is None and error.errno not in UNREADABLE:
            error.filename = str(task.layout.folder)
        raise


class _Job:
    def __init__(self, task: ShardTask, mark: Mark) -> None:
        self.task, self.mark, self.plan = task, mark, plan_of(task.recipe)
        expected, found = task.about.get("identities"), self.plan.score_identities
        if expected is not None and expected != found:
            what = "; ".join(differences(expected, found))
            raise Unfit(
                f"{platform.node()} would compute other values than the machine that started the run: {what}"
            )
        self.record = ShardRecord(
            task.shard, task.url, task.name, task.identity, input_identity(task.url)
        )
        self.known: KnownRows | None = None
        # The scores to compute.
        self.calls: tuple[ScoreCall, ...] = ()
        self.resized: ResizedImages | None = None

    def run(self) -> ShardRecord:
        task, plan, record = self.task, self.plan, self.record
        with (
            seekable(task.url, task.layout.spool, allow_pipe=task.allow_pipe) as (source, damage),
            self._embeddings() as embeddings,
            self._resized() as self.resized,
        ):
            if damage:
                record.damage.append(damage)
            samples = (
                self._score(source, embeddings)
                if task.scored is None
                else self._scored(task.scored, source, embeddings)
            )
            if task.compares or not plan.dataset_calls:
                set_outcomes(plan, samples)
                if task.tars:
                    if self.resized is not None:
                        self._resize_rest(source, samples.rows, self.resized)
                    part_twins(samples.rows)
            count_outcomes(samples, record, plan.terms)
            record.failing = always_failing(samples, self.calls) if record.failed else {}
            record.check()
            if task.write:
                self._write(source, samples, embeddings)
        return record

    def _embeddings(self) -> ShardEmbeddings:
        """Open the ledgers whose values and embeddings are used, and a spool if embeddings are kept."""
        task, plan = self.task, self.plan
        if task.scored is not None:
            return self._scored_embeddings(task.scored)
        if task.known is not None:
            self.known = KnownRows(task.known, self.record, plan, for_all=task.known_for_all)
        there = self.known.calls if self.known is not None else ()
        self.calls = tuple(
            call for call in plan.scores if call not in plan.ranks and call not in there
        )
        stored = own = spool = None
        if task.embedded is not None:
            stored = stored_embeddings(plan.models, task.recipe.stages, self.record, task.embedded)
        if task.recipe.embeddings and task.write:
            if self.known is not None:
                own = own_embeddings(plan.models, self.known.about, self.known.path)
            spool = Spool(columns_of(plan.scores.values()), task.layout.spool)
        return ShardEmbeddings(spool=spool, stored=stored, own=own)

    def _scored_embeddings(self, scored: Layout) -> ShardEmbeddings:
        """Return the embeddings that may be used for scores that a ledger lacks."""
        task, plan = self.task, self.plan
        if not plan.models:
            return ShardEmbeddings()
        path, stored = scored.ledger(task.name), None
        own = own_embeddings(plan.models, read_about(path), path)
        if task.embedded is not None:
            stored = stored_embeddings(plan.models, task.recipe.stages, self.record, task.embedded)
        return ShardEmbeddings(own=own, stored=stored)

    def _resized(self) -> AbstractContextManager[ResizedImages | None]:
        shrinker = self.plan.shrinker if self.task.tars else None
        return (
            nullcontext() if shrinker is None else ResizedImages(shrinker, self.task.layout.spool)
        )

    def _resize_rest(self, source: Source, rows: Sequence[Row], resized: ResizedImages) -> None:
        """Make the images of the kept samples smaller that were not decided when they were read.

        Raises SourceError; SourceChangedError if the shard has other samples than before.
        """
        kept = [row for row in rows if row.outcome == "kept"]
        for row, view in self._views_of(
            source, {row.number: row for row in kept if not resized.has(row)}
        ):
            resized.add(row, view)
        resized.quarantine(kept)

    def _scored(self, scored: Layout, source: Source, embeddings: ShardEmbeddings) -> SampleTable:
        """Read the scores of all samples from a ledger, and compute those that it lacks and that are needed."""
        task, plan = self.task, self.plan
        table, path = read_scored(scored, task.name, self.record), scored.ledger(task.name)
        # A shard of the same size and pieces may have been rewritten: its samples must match the
        # ledger. For the output of a command, this is the only check.
        is_pipe, then = task.url.startswith("pipe:"), read_about(path)["input"].get("changed")
        if is_pipe or then != self.record.input.get("changed"):
            for row, sample in zip_longest(table.rows, Samples(source, contents=False)):
                if row is None or sample is None or not same_sample(row, sample):
                    raise OtherShard(path, self.record.url)
        if task.compares:
            add_compared(plan, table, task.layout, task.name)
        for row in table.rows:
            if row.number in task.aside:
                row.trouble = KILLED
        self._add_lacking(source, table, path, embeddings)
        return table

    def _add_lacking(
        self, source: Source, table: SampleTable, ledger: Path, embeddings: ShardEmbeddings
    ) -> None:
        """Compute the scores that a ledger lacks, for the samples that they may decide. Others are not read.

        Raises SourceError; SourceChangedError if the shard has other samples than the ledger.
        """
        plan = self.plan
        decider = decider_of(plan)
        if decider is not None:
            decider.advance(table, table.readable)
        waiting = {row.number: row for row in table.rows if plan.lacks_values(table, row)}
        if not waiting:
            return
        there = set(read_about(ledger)["identities"])
        self.calls = tuple(
            call for call in plan.scores if call not in plan.ranks and str(call) not in there
        )
        progress = ShardProgress(self.mark, source.length)
        progress.add([row for row in table.rows if row.number not in waiting])
        with self._scorer(table, embeddings, progress) as scorer:
            for row, view in self._views_of(source, waiting):
                scorer.add([ViewedSample(row, view)])
            scorer.finish()

    def _views_of(self, source: Source, waiting: dict[int, Row]) -> Iterator[tuple[Row, ShardView]]:
        """Yield samples by their numbers, each with its view, in the order of the shard.

        Raises SourceError; SourceChangedError if the shard has other samples than before.
        """
        if not waiting:
            return
        task = self.task
        options = ViewOptions(
            images=task.recipe.image, captions=task.recipe.caption, budget=task.budget
        )
        samples = Samples(source, contents=False)
        views = Views(samples, options, task.url, task.recipe.stages)
        for sample in samples:
            row = waiting.pop(sample.number, None)
            if row is None:
                continue
            if not same_sample(row, sample):
                raise SourceChangedError(_OTHERS)
            self.mark.set(sample.number)
            try:
                view = views.view(sample)
            # It existed when it was scored.
            except Gone as gone:
                raise SourceChangedError(
                    f"sample {row.number}: {gone.detail or gone.trouble}"
                ) from None
            yield row, view
            if not waiting:
                break
        self.mark.set(-1)
        if waiting:
            raise SourceChangedError(_OTHERS)

    def _score(self, source: Source, embeddings: ShardEmbeddings) -> SampleTable:
        """Read all samples and compute the scores that decide the predicate, except the known ones."""
        task, plan, record, known = self.task, self.plan, self.record, self.known
        options = ViewOptions(
            images=task.recipe.image, captions=task.recipe.caption, budget=task.budget
        )
        contents = plan.reads_contents(known.calls if known is not None else ())
        samples = Samples(source, contents=contents)
        views = Views(samples, options, task.url, task.recipe.stages)
        progress = ShardProgress(self.mark, source.length)
        table = SampleTable() if known is None else known.table()
        with self._scorer(table, embeddings, progress) as scorer:
            self._read(samples, views, table, embeddings, scorer, progress)
            scorer.finish()
        if known is not None:
            known.check(table)
        _find_scattered(table.rows)
        record.members, record.headers = samples.members, samples.headers
        record.left_out = dict(sorted(samples.left_out.items()))
        record.damage += samples.damage
        if task.compares:
            add_compared(plan, table, task.layout, task.name)
        return table

    def _scorer(
        self, table: SampleTable, embeddings: ShardEmbeddings, progress: ShardProgress
    ) -> SampleScorer:
        return SampleScorer(
            self.plan,
            table,
            self.calls,
            mark=self.mark,
            progress=progress,
            models=self.task.models,
            embeddings=embeddings,
            resized=self.resized,
        )

    def _read(
        self,
        samples: Samples,
        views: Views,
        table: SampleTable,
        embeddings: ShardEmbeddings,
        scorer: SampleScorer,
        progress: ShardProgress,
    ) -> None:
        """Read all samples of the shard, and pass those that can be scored to the scorer."""
        for group in samples.groups():
            for part in scorer.parts(group):
                rows = self._rows_of(part, views, embeddings)
                table.rows += rows
                seen = self._viewed(part, rows, views)
                progress.add([row for row in rows if row.trouble])
                scorer.add(seen)

    def _rows_of(
        self, samples: Sequence[TarSample], views: Views, embeddings: ShardEmbeddings
    ) -> list[Row]:
        """Return the rows of some samples. Raises SourceChangedError if a ledger has other ones."""
        rows = []
        for sample in samples:
            row = Row(sample.number, sample.key, sample.start, sample.end)
            row.fields = views.fields_of(sample)
            row.trouble = sample.trouble
            rows.append(row)
        if self.known is not None:
            for row in rows:
                self.known.fill(row)
                embeddings.keep_own(row)
        for row in rows if self.task.aside else ():
            if row.number in self.task.aside:
                row.trouble = KILLED
        return rows

    def _viewed(
        self, samples: Sequence[TarSample], rows: Sequence[Row], views: Views
    ) -> list[ViewedSample]:
        """Return those of some samples that can be scored; the trouble of others is noted in their rows."""
        seen = []
        for sample, row in zip(samples, rows, strict=True):
            if row.trouble:
                continue
            self.mark.set(row.number)
            try:
                seen.append(ViewedSample(row, views.view(sample)))
            except Gone as gone:
                row.trouble, row.about = gone.trouble, gone.detail
        return seen

    def _write(self, source: Source, samples: SampleTable, embeddings: ShardEmbeddings) -> None:
        task, scored = self.task, self.task.scored
        if input_identity(task.url) != self.record.input:
            raise SourceChangedError
        vectors: Vectors | None = embeddings.spool
        if scored is not None and task.recipe.embeddings:
            vectors = CopiedEmbeddings(scored.ledger(task.name))
        try:
            write_shard(task, source, self.plan, samples, self.record, vectors, self.resized)
        except SourceChangedError:
            if scored is None:
                raise
            raise OtherShard(scored.ledger(task.name), task.url) from None


def _find_scattered(rows: Iterable[Row]) -> None:
    """Mark samples whose members are not adjacent: each part would be an incomplete sample."""
    parts: dict[str, Row] = {}
    for row in rows:
        first = parts.setdefault(row.key, row)
        if first is not row and set(first.fields).isdisjoint(row.fields):
            first.trouble, row.trouble = first.trouble or "scattered", row.trouble or "scattered"
