"""Scores the samples of a shard in windows.

Each sample is decided as soon as the result of its predicate is determined.
"""

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager

from wdsflow.engines.mark import Mark
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.broken_scores import BrokenScoreGuard
from wdsflow.filtering.deciding.decider import decider_of
from wdsflow.filtering.deciding.direct_scores import DirectScores, ViewedSample
from wdsflow.filtering.deciding.model_outputs import ModelOutputs
from wdsflow.filtering.deciding.plan import FilterPlan
from wdsflow.filtering.ledger.embedding_lookup import ShardEmbeddings
from wdsflow.filtering.ledger.sample_table import LedgerRow, SampleTable
from wdsflow.models.model_location import ModelLocation
from wdsflow.models.models_at import models_at
from wdsflow.shards.samples.tar_samples import TarSample

from .resized_images import ResizedImages
from .sample_window import SampleWindow, window_size_of
from .shard_progress import ShardProgress


class SampleScorer(AbstractContextManager["SampleScorer"]):
    """Scores samples of one shard. Use as a context manager; ``finish`` follows the last sample.

    Args:
        plan: the plan of the recipe.
        table: gets the values. Those that it has are not computed.
        calls: the scores to compute.
        mark: gets the number of the current sample, for the case that the process dies.
        progress: counts the samples that are done.
        models: where models run.
        embeddings: outputs of models that an earlier run has stored.
        resized: gets the images of kept samples, None if they keep their size.
    """

    def __init__(
        self,
        plan: FilterPlan,
        table: SampleTable,
        calls: Collection[ScoreCall],
        *,
        mark: Mark,
        progress: ShardProgress,
        models: ModelLocation,
        embeddings: ShardEmbeddings,
        resized: ResizedImages | None,
    ) -> None:
        self._plan = plan
        self._table = table
        self._mark = mark
        self._progress = progress
        self._resized = resized
        self._decider = decider_of(plan)
        self._scores = DirectScores(plan, table, mark)
        self._guard = BrokenScoreGuard(calls)
        self._size = window_size_of(plan.recipe)
        self._window = SampleWindow(plan, self._size)
        self._models: ModelOutputs | None = None
        if not plan.model_calls.isdisjoint(calls):
            self._models = ModelOutputs(plan, table, models_at(models), mark, embeddings)

    def __exit__(self, *_: object) -> None:
        """Wait for models that still run."""
        if self._models is not None:
            self._models.__exit__()

    def parts(self, samples: Sequence[TarSample]) -> Iterator[Sequence[TarSample]]:
        """Yield neighbouring samples in parts that can be added at once."""
        return self._window.parts(samples)

    def add(self, samples: Sequence[ViewedSample]) -> None:
        """Add the next samples, and compute the scores that all samples need.

        The bytes of the samples must be in memory.
        """
        began = time.monotonic()
        first_calls = self._decider.first_calls if self._decider is not None else ()
        self._scores.compute_first(first_calls, samples)
        self._window.add(samples, time.monotonic() - began)
        if self._window.is_full:
            self._decide_window()

    def finish(self) -> None:
        """Decide the last samples."""
        self._decide_window()
        while self._models is not None and self._models.is_waiting:
            self._decide(self._models.next_window())
        self._mark.set_sample(-1)

    def _decide_window(self) -> None:
        began, before = time.monotonic(), self._window.seconds
        samples = self._window.take_all()
        waiting = self._decide_once(samples)
        self._size.adapt_to(len(samples), before + time.monotonic() - began)
        self._decide(self._request(waiting))

    def _decide(self, samples: Sequence[ViewedSample]) -> None:
        """Decide samples as far as possible.

        Those that need more outputs of models wait for them.
        """
        while samples:
            samples = self._request(self._decide_once(samples))

    def _decide_once(self, samples: Sequence[ViewedSample]) -> list[ViewedSample]:
        """Compute the scores that decide samples, cheap ones first.

        Returns the samples that need a model.
        """
        self._advance(samples)
        self._compute_requested(samples)
        for row, _ in samples:
            if not self._guard.open:
                break
            self._guard.check(self._table, row)
        waiting = []
        for sample in samples:
            if self._models is not None and self._plan.next_model_calls(self._table, sample.row):
                waiting.append(sample)
                continue
            self._progress.add([sample.row])
            if self._models is not None:
                self._models.remove(sample.row)
        return waiting

    def _advance(self, samples: Sequence[ViewedSample]) -> None:
        """Evaluate the predicate for samples as far as possible without a model.

        The scores for it are computed.
        """
        if self._decider is None:
            return
        by_number = {sample.row.number: sample for sample in samples}

        def compute(call: ScoreCall, rows: Sequence[LedgerRow]) -> None:
            self._scores.compute(call, [by_number[row.number] for row in rows])
            self._mark.set_sample(-1)

        self._decider.advance(self._table, [sample.row for sample in samples], compute)

    def _request(self, samples: Sequence[ViewedSample]) -> list[ViewedSample]:
        """Request outputs of models, and return the samples that have new values.

        The values are those of outputs that have come, or failures.
        """
        changed: list[ViewedSample] = []
        for sample in samples:
            assert self._models is not None
            if not self._models.add(sample):
                changed.append(sample)
            if self._models.is_full:
                changed += self._models.next_window()
        return changed

    def _compute_requested(self, samples: Sequence[ViewedSample]) -> None:
        """Compute what is needed in addition to the predicate.

        Also make images of kept samples smaller.
        """
        if not self._plan.computes_extra_scores and self._resized is None:
            return
        for sample in samples:
            row, view = sample
            self._mark.set_sample(row.number)
            self._scores.compute_requested(sample)
            is_kept = row.judgement is not None and row.judgement.keep
            if self._resized is not None and is_kept and not self._resized.has_sample(row):
                # Pixels that scores have decoded are used.
                self._resized.add(row, view)
            if self._models is None:
                view.release_pictures()
        self._mark.set_sample(-1)
