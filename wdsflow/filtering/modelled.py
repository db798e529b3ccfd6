"""Scores that models compute, for samples of a shard together: a window at a time, bounded in items and bytes."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from wdsflow.engines.mark import Mark
from wdsflow.filtering.failing import failed
from wdsflow.filtering.fields import ShardView
from wdsflow.filtering.program import Program
from wdsflow.filtering.row import Row
from wdsflow.filtering.where import Call, Unknown
from wdsflow.memory.batching.outcome import Failure
from wdsflow.memory.weigh import weigh
from wdsflow.models.client import Models
from wdsflow.stages.scores.model import Model, ModelScore, Request

_MOST_SAMPLES = 512
_MOST_BYTES = 128 << 20  # of items that wait


class _Pending(NamedTuple):
    """A score of a sample that waits for outputs."""

    row: Row
    view: ShardView
    call: Call
    requests: Sequence[Request]


class Modelled:
    """Collects samples that need a model, and gives their rows the values. For one shard.

    Windows end where samples and items say, never where time does: the same shard makes the same batches.
    """

    def __init__(self, program: Program, models: Models, mark: Mark) -> None:
        self._program, self._models, self._mark = program, models, mark
        self._samples: list[tuple[Row, ShardView]] = []
        self._pending: list[_Pending] = []
        self._items: dict[tuple[int, Model, Any], Any] = {}  # by sample, model and key
        self._outputs: dict[tuple[int, Model, Any], Any] = {}
        self._bytes = 0

    def add(self, row: Row, view: ShardView) -> None:
        """Take a sample as far as its scores are known without a model; the rest may come later."""
        if not self._program.wanted(row):
            return
        self._samples.append((row, view))
        self._prepare(row, view)
        if len(self._samples) >= _MOST_SAMPLES or self._bytes >= _MOST_BYTES:
            self.finish()

    def finish(self) -> None:
        """Compute what is missing for all samples that were taken."""
        while self._pending:
            self._run()
            waiting, self._pending = self._pending, []
            for pending in waiting:
                self._settle(pending)
            self._items.clear()
            self._bytes = 0
            for row, view in dict.fromkeys((pending.row, pending.view) for pending in waiting):
                self._program.resume(row, view)
                self._prepare(row, view)
                if self._bytes >= _MOST_BYTES:
                    self._run()
        self._samples.clear()
        self._outputs.clear()

    def _prepare(self, row: Row, view: ShardView) -> None:
        """Ask for what is needed next; what cannot be had is noted, and something else may be needed then."""
        self._mark.set(row.number)
        while calls := [call for call in self._program.wanted(row) if not self._waits(row, call)]:
            failures = 0
            for call in calls:
                score = self._program.scores[call]
                assert isinstance(score, ModelScore)
                found = _guarded(partial(self._requests, row, score, view))
                if isinstance(found, Unknown):
                    row.values[call] = found
                    failures += 1
                else:
                    self._pending.append(_Pending(row, view, call, found))
            if not failures:
                break
            self._program.resume(row, view)
        self._mark.set(-1)

    def _waits(self, row: Row, call: Call) -> bool:
        return any(pending.row is row and pending.call == call for pending in reversed(self._pending[-8:]))

    def _requests(self, row: Row, score: ModelScore, view: ShardView) -> list[Request]:
        requests = score.requests(view)
        for request in requests:
            place = row.number, request.model, request.key
            if place not in self._items and place not in self._outputs:
                self._items[place] = item = request.make()
                self._bytes += weigh(item)
        return requests

    def _run(self) -> None:
        by_model: dict[Model, list[tuple[int, Model, Any]]] = {}
        for place in self._items:
            if place not in self._outputs:
                by_model.setdefault(place[1], []).append(place)
        for model, places in by_model.items():
            found = self._models.map(model, [self._items[place] for place in places])
            self._outputs.update(zip(places, found, strict=True))
        self._items.clear()
        self._bytes = 0

    def _settle(self, pending: _Pending) -> None:
        row, view, call, requests = pending
        score = self._program.scores[call]
        assert isinstance(score, ModelScore)
        outputs = [self._outputs[row.number, request.model, request.key] for request in requests]
        failure = next((output for output in outputs if isinstance(output, Failure)), None)
        if failure is not None:
            numbers = ", ".join(f"{name} {value:,}" for name, value in failure.numbers.items())
            row.values[call] = Unknown(failure.slug, f"{failure.detail} ({numbers})" if numbers else failure.detail)
        else:
            row.values[call] = _guarded(lambda: score.value(view, outputs))


def _guarded(compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except Exception as error:  # noqa: BLE001 - told apart there
        return failed(error)
