"""What models return for samples of a shard.

It is requested for many samples together, in windows bounded in items and bytes.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeAlias

from wdsflow.engines.base import EnvironmentMismatchError
from wdsflow.engines.mark import Mark
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.ledger.embedding_lookup import ShardEmbeddings
from wdsflow.filtering.ledger.sample_table import LedgerRow, SampleTable
from wdsflow.filtering.predicates.values import Unknown, Value
from wdsflow.filtering.samples.shard_view import ShardView
from wdsflow.memory.batching.attempt import Failure, PoisonedError
from wdsflow.memory.weigh import estimated_size
from wdsflow.models.model_location import begins_small
from wdsflow.models.models_at import Models
from wdsflow.stages.scores.base import ModelDatasetScore
from wdsflow.stages.scores.model.model import Model
from wdsflow.stages.scores.model.model_score import ModelScore, Request

from .direct_scores import ViewedSample
from .plan import FilterPlan
from .score_values import plain_value, result_or_unknown, without_addresses

_MOST_SAMPLES = 512
# On a CPU; a score that returns values of a wrong shape is not noticed with one.
_FIRST_SAMPLES = 2

# The model of an item, and its key in the sample.
_ItemKey: TypeAlias = tuple[Model, object]


class _OpenSample:
    """A sample that waits for outputs of models, and those that have come."""

    def __init__(self, sample: ViewedSample) -> None:
        self.sample = sample
        self.requests: dict[ScoreCall, Sequence[Request]] = {}
        self.outputs: dict[_ItemKey, object] = {}


class _Window:
    """Samples whose items are sent to the models together."""

    def __init__(self) -> None:
        # By the numbers of the samples, in order.
        self.samples: dict[int, _OpenSample] = {}
        self.items: dict[tuple[int, _ItemKey], object] = {}
        self.weight = 0


class ModelOutputs(AbstractContextManager["ModelOutputs"]):
    """Sets the values of scores that models compute.

    Samples are added to a window. ``next_window`` sends a window to the models, and returns the
    samples of the window before, whose outputs have come meanwhile. Windows end by samples and
    items, never by time: the same shard makes the same batches.

    On a CPU a full window may take minutes. There the first ones of a shard have 2, 4, 8 ...
    samples: the time of a sample is measured soon. A GPU needs full windows from the start.
    """

    def __init__(
        self,
        plan: FilterPlan,
        table: SampleTable,
        models: Models,
        mark: Mark,
        embeddings: ShardEmbeddings,
    ) -> None:
        self._plan = plan
        self._table = table
        self._models = models
        self._mark = mark
        self._embeddings = embeddings if embeddings.in_use else None
        self._most_samples = _FIRST_SAMPLES if begins_small(models.window) else _MOST_SAMPLES
        # All samples that are not finished: their outputs may serve several scores.
        self._open: dict[int, _OpenSample] = {}
        self._window = _Window()
        self._running: tuple[_Window, Future[None] | None] | None = None
        # Not if models run in this process: if one killed
        # it, the sample being read would be quarantined.
        self._thread = ThreadPoolExecutor(1, "wdsflow-request") if models.in_other_process else None

    def __exit__(self, *_: object) -> None:
        """Wait for pending requests: the next request uses the same connection."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    @property
    def is_full(self) -> bool:
        """Whether it is time for ``next_window``."""
        window = self._window
        return len(window.samples) >= self._most_samples or window.weight >= self._models.window

    @property
    def is_waiting(self) -> bool:
        """Whether samples wait for outputs."""
        return bool(self._window.samples) or self._running is not None

    def add(self, sample: ViewedSample) -> bool:
        """Request the outputs that a sample needs next.

        Return False if some could not be requested: their scores have failed, which may decide the
        sample.
        """
        number = sample.row.number
        open_sample = self._open.setdefault(number, _OpenSample(sample))
        self._window.samples[number] = open_sample
        self._mark.set_sample(number)
        could_request = True
        for call in self._plan.next_model_calls(self._table, sample.row):
            if call in open_sample.requests:
                continue
            score = self._model_score(call)
            requests = result_or_unknown(partial(self._request, open_sample, score), sample.view)
            if isinstance(requests, Unknown):
                self._table.columns[call][number] = requests
                could_request = False
            else:
                open_sample.requests[call] = requests
        self._mark.set_sample(-1)
        return could_request

    def remove(self, row: LedgerRow) -> None:
        """Forget the outputs of a sample that needs no more."""
        self._open.pop(row.number, None)
        self._window.samples.pop(row.number, None)

    def next_window(self) -> list[ViewedSample]:
        """Send this window to the models, and begin the next.

        Returns the samples of the window before, with their values.
        """
        before = self._running
        window, self._window = self._window, _Window()
        self._most_samples = min(2 * self._most_samples, _MOST_SAMPLES)
        self._running = None
        if window.samples:
            future = None
            if self._thread is None:
                self._run(window)
            else:
                future = self._thread.submit(self._run, window)
            self._running = window, future
        return [] if before is None else self._values_of(*before)

    def _values_of(self, window: _Window, future: "Future[None] | None") -> list[ViewedSample]:
        """Wait for the outputs of a window, and set the values of its samples."""
        if future is not None:
            future.result()
        for open_sample in window.samples.values():
            row, view = open_sample.sample
            for call, requests in [*open_sample.requests.items()]:
                score = self._model_score(call)
                is_complete = result_or_unknown(
                    partial(self._all_available, open_sample, requests), view
                )
                if isinstance(is_complete, Unknown):
                    self._table.columns[call][row.number] = is_complete
                elif is_complete:
                    self._set_value(open_sample, call, score, requests)
                else:
                    # A second model works on what the first one returned.
                    continue
                del open_sample.requests[call]
        return [open_sample.sample for open_sample in window.samples.values()]

    def _run(self, window: _Window) -> None:
        """Pass the items of a window to their models, and keep the outputs with their samples."""
        by_model: dict[Model, list[tuple[int, _ItemKey]]] = {}
        for number, key in window.items:
            by_model.setdefault(key[0], []).append((number, key))
        for model, keys in by_model.items():
            try:
                outputs = self._models.map(model, [window.items.pop(key) for key in keys])
            except PoisonedError as error:
                raise EnvironmentMismatchError(
                    f"{model.display_name()}: {error.message}. Run again with --jobs 1 or more: models then have a separate"
                    " process, which is replaced, and the sample that caused this is quarantined"
                ) from None
            for (number, key), output in zip(keys, outputs, strict=True):
                window.samples[number].outputs[key] = output

    def _request(
        self, open_sample: _OpenSample, score: ModelScore, view: ShardView
    ) -> list[Request]:
        """Request what a score needs, unless an earlier run has stored it."""
        requests = score.requests(view)
        for request in requests:
            key = request.model, request.key
            if self._embeddings is not None and key not in open_sample.outputs:
                stored = self._embeddings.find(open_sample.sample.row, request)
                if stored is not None:
                    open_sample.outputs[key] = stored
            self._is_available(open_sample, request)
        return requests

    def _all_available(
        self, open_sample: _OpenSample, requests: Sequence[Request], _view: ShardView
    ) -> bool:
        """Return whether all outputs of a score are available; request those that are not."""
        # Not all(...) of a generator, which would end at the first that is not available.
        is_available = [self._is_available(open_sample, request) for request in requests]
        return all(is_available)

    def _is_available(self, open_sample: _OpenSample, request: Request) -> bool:
        """Return whether an output is available, and request it otherwise.

        If it is made from another output, that one is requested first. Raises ScoreError.
        """
        key = request.model, request.key
        item = open_sample.sample.row.number, key
        if key in open_sample.outputs:
            return True
        if item in self._window.items:
            return False
        inputs: tuple[object, ...] = ()
        if request.after is not None:
            if not self._is_available(open_sample, request.after):
                return False
            output = open_sample.outputs[request.after.model, request.after.key]
            if isinstance(output, Failure):
                open_sample.outputs[key] = output
                return True
            inputs = (output,)
        content = request.make(*inputs)
        self._window.items[item] = content
        self._window.samples[item[0]] = open_sample
        self._window.weight += estimated_size(content)
        return False

    def _set_value(
        self,
        open_sample: _OpenSample,
        call: ScoreCall,
        score: ModelScore,
        requests: Sequence[Request],
    ) -> None:
        """Set the value of a score whose outputs have come."""
        row, view = open_sample.sample
        column = self._table.columns[call]
        outputs = [open_sample.outputs[request.model, request.key] for request in requests]
        failure = next((output for output in outputs if isinstance(output, Failure)), None)
        if failure is not None:
            column[row.number] = _failed(failure)
            return
        if isinstance(score, ModelDatasetScore):
            record = result_or_unknown(partial(_record, score, outputs), view)
            if isinstance(record, Unknown):
                column[row.number] = record
            else:
                self._table.gathered[call][row.number] = record
        else:
            column[row.number] = result_or_unknown(partial(_value, score, outputs), view)
        if self._embeddings is not None:
            self._embeddings.keep(row, score, requests, outputs)

    def _model_score(self, call: ScoreCall) -> ModelScore:
        score = self._plan.scores[call]
        assert isinstance(score, ModelScore)
        return score


def _failed(failure: Failure) -> Unknown:
    """Return why a model has no output for an item."""
    detail = without_addresses(failure.detail)
    numbers = ", ".join(f"{name} {value:,}" for name, value in failure.numbers.items())
    return Unknown(failure.slug, f"{detail} ({numbers})" if numbers else detail)


def _record(score: ModelDatasetScore, outputs: Sequence[object], view: ShardView) -> bytes:
    return score.record(view, outputs)


def _value(score: ModelScore, outputs: Sequence[object], view: ShardView) -> Value:
    return plain_value(score, score.value(view, outputs), view)
