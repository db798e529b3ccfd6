"""Scores that models compute, for several samples of a shard together: one window at a time, bounded in items and bytes."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from wdsflow.engines.base import Unfit
from wdsflow.engines.peer import Mark
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.ledger.embeddings import ShardEmbeddings
from wdsflow.filtering.ledger.sample_table import Row, SampleTable
from wdsflow.filtering.predicates.values import Unknown
from wdsflow.filtering.samples import ShardView
from wdsflow.memory.batching.attempt import Failure, PoisonedError
from wdsflow.memory.sizes import weigh
from wdsflow.models.loaded import begins_small
from wdsflow.models.processes import Models
from wdsflow.stages.scores.base import ModelDatasetScore
from wdsflow.stages.scores.model.model_score import Model, ModelScore, Request

from .outcomes import BrokenScoreGuard
from .program import Program, Seen, guarded, plain_value, without_addresses
from .settled import Settled

_MOST_SAMPLES = 512
_FIRST_SAMPLES = 2  # on a CPU; a score that returns values of a wrong shape is not noticed with one

_Place = tuple[int, Model, object]  # of an item: its sample, model and key


class _Pending(NamedTuple):
    """A score of a sample that waits for model outputs."""

    sample: Seen
    call: ScoreCall
    requests: Sequence[Request]


@dataclass
class _Window:
    """Samples that are sent to the models together, at most ``fits``. ``most``: bytes of their items."""

    most: int
    fits: int  # samples
    rows: list[Row] = field(default_factory=list)
    samples: int = 0  # whose items are not requested yet
    pending: dict[tuple[int, ScoreCall], _Pending] = field(default_factory=dict)  # by sample and score
    items: dict[_Place, object] = field(default_factory=dict)
    outputs: dict[_Place, object] = field(default_factory=dict)
    weight: int = 0  # bytes of the items

    def want(self, row: Row, request: Request) -> bool:
        """Request an item, or first its inputs; return whether its output is known. Raises ScoreError."""
        place = row.number, request.model, request.key
        if place in self.outputs:
            return True
        if place in self.items:
            return False
        made_of: tuple[object, ...] = ()
        if request.after is not None:
            if not self.want(row, request.after):
                return False
            output = self.outputs[row.number, request.after.model, request.after.key]
            if isinstance(output, Failure):
                self.outputs[place] = output
                return True
            made_of = (output,)
        self.items[place] = item = request.make(*made_of)
        self.weight += weigh(item)
        return False

    @property
    def full(self) -> bool:
        return self.samples >= self.fits or self.weight >= self.most


class Modelled(AbstractContextManager["Modelled"]):
    """Collects samples of one shard that need a model, and sets the values of their rows.

    Windows end by samples and items, never by time: the same shard makes the same batches. While models in another
    process work on one window, the next is prepared.

    On a CPU a full window may take minutes. There the first ones of a shard have 2, 4, 8 ... samples: what a sample
    takes is known soon. A GPU needs full windows from the start.
    """

    def __init__(
        self,
        program: Program,
        table: SampleTable,
        models: Models,
        mark: Mark,
        guard: BrokenScoreGuard,
        embeddings: ShardEmbeddings,
        settled: Settled,
    ) -> None:
        self._program, self._table, self._models = program, table, models
        self._mark, self._guard = mark, guard
        self._embeddings = embeddings if embeddings.in_use else None
        self._settled = settled
        self._fits = _FIRST_SAMPLES if begins_small(models.window) else _MOST_SAMPLES
        self._window = _Window(models.window, self._fits)
        self._asked: tuple[_Window, Future[None] | None] | None = None
        # Not if models run in this process: if one killed it, the sample being read would be quarantined.
        self._other = ThreadPoolExecutor(1, "wdsflow-ask") if models.apart else None

    def __exit__(self, *_: object) -> None:
        """Wait for pending requests: the next request uses the same connection."""
        if self._other is not None:
            self._other.shutdown(cancel_futures=True)

    def add(self, samples: Sequence[Seen]) -> None:
        """Add samples with their scores that need no model; model scores may come later."""
        failed = []
        for sample in samples:
            if not self._program.wanted(self._table, sample.row):
                self._settled.add([sample.row])
                continue
            self._window.rows.append(sample.row)
            self._window.samples += 1
            if self._request(self._window, sample):
                failed.append(sample)
            if self._window.full:
                self._retry(self._window, failed)
                failed = []
                self.turn()
        self._retry(self._window, failed)

    def turn(self) -> None:
        """Request this window, finish the one before, and begin the next. Two turns finish all collected samples."""
        before, window = self._asked, self._window
        self._fits = min(2 * self._fits, _MOST_SAMPLES)
        self._asked, self._window = None, _Window(self._models.window, self._fits)
        if window.rows:
            asked: Future[None] | None = None
            if self._other is None:
                self._run(window)
            else:
                asked = self._other.submit(self._run, window)
            self._asked = window, asked
        if before is not None:
            self._settle_all(*before)

    def _settle_all(self, window: _Window, asked: "Future[None] | None") -> None:
        if asked is not None:
            asked.result()
        while window.pending:
            waiting, window.pending = window.pending, {}
            for pending in waiting.values():
                self._settle(window, pending)
            samples = {pending.sample.row.number: pending.sample for pending in waiting.values()}
            self._program.advance(self._table, list(samples.values()), self._mark)
            failed = []
            for sample in samples.values():
                if self._request(window, sample):
                    failed.append(sample)
                if self._guard.open:
                    self._guard.check(self._table, sample.row)
                if window.full:
                    self._run_next(window)
            self._retry(window, failed)
            if window.pending:
                self._run_next(window)
        self._settled.add(window.rows)

    def _run_next(self, window: _Window) -> None:
        """Run the items of a window after those that are requested already."""
        if self._other is None:
            self._run(window)
        else:
            self._other.submit(self._run, window).result()

    def _run(self, window: _Window) -> None:
        items, window.items, window.weight, window.samples = window.items, {}, 0, 0
        by_model: dict[Model, list[_Place]] = {}
        for place in items:
            by_model.setdefault(place[1], []).append(place)
        for model, places in by_model.items():
            try:
                found = self._models.map(model, [items.pop(place) for place in places])
            except PoisonedError as error:
                raise Unfit(
                    f"{model.called()}: {error.message}. Run again with --jobs 1 or more: models then have a separate"
                    " process, which is replaced, and the sample that caused this is quarantined"
                ) from None
            window.outputs.update(zip(places, found, strict=True))

    def _retry(self, window: _Window, failed: "Sequence[Seen]") -> None:
        """Request what samples need after a failure, which may have decided them."""
        while failed:
            self._program.advance(self._table, failed, self._mark)
            failed = [sample for sample in failed if self._request(window, sample)]

    def _request(self, window: _Window, sample: Seen) -> bool:
        """Request the next outputs that a sample needs. Return whether some could not be requested."""
        row, view = sample
        self._mark.set(row.number)
        has_failed = False
        for call in self._program.wanted(self._table, row):
            if (row.number, call) in window.pending:
                continue
            score = self._program.scores[call]
            assert isinstance(score, ModelScore)
            found = guarded(partial(self._requests, window, row, score), view)
            if isinstance(found, Unknown):
                self._table.columns[call][row.number] = found
                has_failed = True
            else:
                window.pending[row.number, call] = _Pending(sample, call, found)
        self._mark.set(-1)
        return has_failed

    def _requests(self, window: _Window, row: Row, score: ModelScore, view: ShardView) -> list[Request]:
        requests = score.requests(view)
        for request in requests:
            place = row.number, request.model, request.key
            if self._embeddings is not None and place not in window.items and place not in window.outputs:
                known = self._embeddings.find(row, request)
                if known is not None:
                    window.outputs[place] = known
            window.want(row, request)
        return requests

    def _settle(self, window: _Window, pending: _Pending) -> None:
        (row, view), call, requests = pending
        column = self._table.columns[call]
        score = self._program.scores[call]
        assert isinstance(score, ModelScore)
        there = guarded(lambda _: [window.want(row, request) for request in requests], view)
        if isinstance(there, Unknown):
            column[row.number] = there
            return
        if not all(there):  # the second of two models has not run yet
            window.pending[row.number, call] = pending
            return
        outputs = [window.outputs[row.number, request.model, request.key] for request in requests]
        failure = next((output for output in outputs if isinstance(output, Failure)), None)
        if failure is not None:
            numbers = ", ".join(f"{name} {value:,}" for name, value in failure.numbers.items())
            detail = without_addresses(failure.detail)
            column[row.number] = Unknown(failure.slug, f"{detail} ({numbers})" if numbers else detail)
            return
        if isinstance(score, ModelDatasetScore):
            record = guarded(lambda view: score.record(view, outputs), view)
            if isinstance(record, Unknown):
                column[row.number] = record
            else:
                self._table.gathered[call][row.number] = record
        else:
            column[row.number] = guarded(lambda view: plain_value(score, score.value(view, outputs), view), view)
        if self._embeddings is not None:
            self._embeddings.keep(row, score, requests, outputs)
