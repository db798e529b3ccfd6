"""Samples with values that a ledger has already: only what is missing is computed."""

from collections.abc import Mapping, Sequence

from wdsflow.engines.peer import Mark
from wdsflow.filtering.deciding.program import Program
from wdsflow.filtering.folder.layout import Layout
from wdsflow.filtering.folder.shard_record import ShardRecord
from wdsflow.filtering.kinds import kind_of
from wdsflow.filtering.ledger.ledger import read_ledger
from wdsflow.filtering.ledger.ledger_row import Row, same_shard
from wdsflow.filtering.samples.staged_samples import Gone
from wdsflow.filtering.where.language.values import Call, Unknown
from wdsflow.shards.source.base import Source, SourceChangedError
from wdsflow.stages.scores.sample_view import ViewOptions

from .kept_pieces import same_sample
from .shard_task import ShardTask

_OTHERS = "its ledger has other samples; score it again with --restart"
KILLED = "killed-worker"  # the trouble of a sample that killed its process


class KnownRows:
    """The samples of a ledger with fewer scores, from which a shard's samples take the values that are there.

    ``calls``: the scores that need not be computed. Raises LedgerError if the ledger is of another shard.
    """

    def __init__(self, layout: Layout, record: ShardRecord, program: Program) -> None:
        path = layout.ledger(record.name)
        rows, about = read_ledger(path)
        same_shard(about, record, path)
        self.path, self.about = path, about
        there = set(about["identities"])
        compared = frozenset(program.dataset_calls)
        self.calls = frozenset(call for call in program.scores if str(call) in there and call not in compared)
        self._rows: Mapping[int, Row] = {row.number: row for row in rows}
        self._gathered = frozenset(program.gathered_calls)

    def fill(self, row: Row) -> None:
        """Give a sample the values that are known. Raises SourceChangedError if it is another one."""
        known = self._rows.get(row.number)
        if known is None or not same_sample(known, row):
            raise SourceChangedError(_OTHERS)
        row.digest, row.trouble = known.digest, KILLED if known.trouble == KILLED else row.trouble
        row.values = {call: value for call, value in known.values.items() if call in self.calls}
        for call in self._gathered:  # what comparisons said is not kept: they are made again
            if call in known.gathered:
                row.gathered[call] = known.gathered[call]
            elif isinstance(found := known.values.get(call), Unknown):
                row.values[call] = found

    def check(self, rows: Sequence[Row]) -> None:
        """Raise SourceChangedError if the shard has fewer samples, or more."""
        if len(rows) != len(self._rows):
            raise SourceChangedError(_OTHERS)


def add_cheap(task: ShardTask, source: Source, program: Program, rows: Sequence[Row], mark: Mark) -> None:
    """Compute the scores of headers and texts that a ledger lacks, for the samples that they may decide.

    Raises SourceError; SourceChangedError if the shard has other samples than the ledger.
    """
    waiting = {row.number: row for row in rows if program.is_open(row)} if program.cheap_calls else {}
    if not waiting:
        return
    options = ViewOptions(images=task.recipe.images, captions=task.recipe.captions, budget=task.budget)
    samples, views = kind_of(task.url).opened(source, task.url, task.recipe, options, contents=False)
    for sample in samples:
        row = waiting.pop(sample.number, None)
        if row is None:
            continue
        if not same_sample(row, sample):
            raise SourceChangedError(_OTHERS)
        mark.set(sample.number)
        try:
            view = views.view(sample)
        except Gone as gone:  # it was there when it was scored
            raise SourceChangedError(f"sample {row.number}: {gone.detail or gone.trouble}") from None
        program.resume(row, view, cheap=True)
        if not waiting:
            break
    mark.set(-1)
    if waiting:
        raise SourceChangedError(_OTHERS)


def lacking(program: Program, known: KnownRows | None) -> tuple[Call, ...]:
    """Return the scores that are computed for a shard."""
    return tuple(
        call for call in program.scores if call not in program.ranks and (not known or call not in known.calls)
    )
