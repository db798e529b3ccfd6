"""Scores the samples of a shard in windows, and decides each as soon as its predicate is known."""

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager

from wdsflow.engines.peer import Mark
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.broken_scores import BrokenScoreGuard
from wdsflow.filtering.deciding.model_outputs import ModelOutputs
from wdsflow.filtering.deciding.program import Program, Seen
from wdsflow.filtering.deciding.settled import Settled
from wdsflow.filtering.ledger.embeddings import ShardEmbeddings
from wdsflow.filtering.ledger.sample_table import SampleTable
from wdsflow.models.model_location import ModelLocation
from wdsflow.models.models_at import models_at
from wdsflow.shards.samples.tar_samples import TarSample

from .resized_images import ResizedImages
from .sample_window import SampleWindow, window_size_of


class SampleScorer(AbstractContextManager["SampleScorer"]):
    """Scores samples of one shard. Use as a context manager; ``finish`` follows the last sample.

    Args:
        program: the recipe.
        table: gets the values. Those that it has are not computed.
        calls: the scores to compute.
        mark: gets the number of the current sample, for the case that the process dies.
        settled: counts the samples that are done, for the progress.
        models: where models run.
        embeddings: outputs of models that an earlier run has stored.
        resized: gets the images of kept samples, None if they keep their size.
    """

    def __init__(
        self,
        program: Program,
        table: SampleTable,
        calls: Collection[ScoreCall],
        *,
        mark: Mark,
        settled: Settled,
        models: ModelLocation,
        embeddings: ShardEmbeddings,
        resized: ResizedImages | None,
    ) -> None:
        self._program = program
        self._table = table
        self._mark = mark
        self._settled = settled
        self._resized = resized
        self._guard = BrokenScoreGuard(calls)
        self._size = window_size_of(program.recipe)
        self._window = SampleWindow(program, self._size)
        self._models: ModelOutputs | None = None
        if not program.model_calls.isdisjoint(calls):
            self._models = ModelOutputs(program, table, models_at(models), mark, embeddings)

    def __exit__(self, *_: object) -> None:
        """Wait for models that still run."""
        if self._models is not None:
            self._models.__exit__()

    def parts(self, samples: Sequence[TarSample]) -> Iterator[Sequence[TarSample]]:
        """Yield neighbouring samples in parts that can be added at once."""
        return self._window.parts(samples)

    def add(self, samples: Sequence[Seen]) -> None:
        """Add the next samples, and compute what all samples need while their bytes are in memory."""
        began = time.monotonic()
        self._program.start(self._table, samples, self._mark)
        self._window.add(samples, time.monotonic() - began)
        if self._window.full:
            self._decide_window()

    def finish(self) -> None:
        """Decide the last samples."""
        self._decide_window()
        while self._models is not None and self._models.is_waiting:
            self._decide(self._models.turn())
        self._mark.set(-1)

    def _decide_window(self) -> None:
        began, before = time.monotonic(), self._window.seconds
        samples = self._window.take()
        waiting = self._decide_once(samples)
        self._size.took(len(samples), before + time.monotonic() - began)
        self._decide(self._request(waiting))

    def _decide(self, samples: Sequence[Seen]) -> None:
        """Decide samples as far as possible; those that need more outputs of models wait for them."""
        while samples:
            samples = self._request(self._decide_once(samples))

    def _decide_once(self, samples: Sequence[Seen]) -> list[Seen]:
        """Compute the scores that decide samples, cheap ones first. Return those that need a model."""
        self._program.advance(self._table, samples, self._mark)
        self._add_requested(samples)
        for row, _ in samples:
            if not self._guard.open:
                break
            self._guard.check(self._table, row)
        waiting = []
        for sample in samples:
            if self._models is not None and self._program.wanted(self._table, sample.row):
                waiting.append(sample)
                continue
            self._settled.add([sample.row])
            if self._models is not None:
                self._models.remove(sample.row)
        return waiting

    def _request(self, samples: Sequence[Seen]) -> list[Seen]:
        """Request outputs of models. Return the samples that have new values: of outputs that have come, or failures."""
        changed: list[Seen] = []
        for sample in samples:
            assert self._models is not None
            if not self._models.add(sample):
                changed.append(sample)
            if self._models.is_full:
                changed += self._models.turn()
        return changed

    def _add_requested(self, samples: Sequence[Seen]) -> None:
        """Compute what is requested besides the predicate, and make images of kept samples smaller."""
        if not self._program.asks_more and self._resized is None:
            return
        for row, view in samples:
            self._mark.set(row.number)
            self._program.add_asked(self._table, row, view)
            is_kept = row.judgement is not None and row.judgement.keep
            if self._resized is not None and is_kept and not self._resized.has(row):
                # Pixels that scores have decoded are used.
                self._resized.add(row, view)
        self._mark.set(-1)
