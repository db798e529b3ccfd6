"""Computes the scores that need nothing but the sample: no model, and no other sample."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from wdsflow.engines.mark import Mark
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.ledger.sample_table import LedgerRow, SampleTable
from wdsflow.filtering.predicates.values import Unknown
from wdsflow.filtering.samples.shard_view import ShardView, method_of
from wdsflow.stages.scores.base import DatasetScore, TextScore
from wdsflow.stages.scores.model.returned_values import described

from .plan import FilterPlan
from .score_values import failure_of, plain_method, result_or_unknown


class ViewedSample(NamedTuple):
    """A sample that is being scored, and the view of its fields."""

    row: LedgerRow
    view: ShardView


class DirectScores:
    """Sets values in the columns of a table. A value that the table has is not computed again.

    Args:
        plan: has the scores.
        table: gets the values.
        mark: gets the number of the current sample, for the case that the process dies.
    """

    def __init__(self, plan: FilterPlan, table: SampleTable, mark: Mark) -> None:
        self._plan = plan
        self._table = table
        self._mark = mark
        scores = {call: plan.scores[call] for call in plan.direct_calls}
        self._methods = {
            call: plain_method(score, method_of(score)) for call, score in scores.items()
        }
        self._reads_captions = any(isinstance(score, TextScore) for score in scores.values())

    def compute_first(self, calls: Collection[ScoreCall], samples: Sequence[ViewedSample]) -> None:
        """Compute the scores that all samples need, while their bytes are in memory."""
        for call in calls:
            self.compute(call, samples)
        if self._reads_captions:
            # Later they would have to be read again.
            for _, view in samples:
                view.plain_caption(in_memory=True)

    def compute(self, call: ScoreCall, samples: Sequence[ViewedSample]) -> None:
        """Compute a score of some samples, unless it needs more than a sample."""
        method = self._methods.get(call)
        if method is None:
            return
        column = self._table.columns[call]
        is_last_by_pixels = call == self._plan.last_pixel_call
        for row, view in samples:
            if row.number not in column:
                self._mark.set_sample(row.number)
                column[row.number] = result_or_unknown(method, view)
            if is_last_by_pixels:
                view.release_pictures()

    def compute_requested(self, sample: ViewedSample) -> None:
        """Compute what is needed in addition to the predicate.

        This is other scores, data to compare samples, and hashes.
        """
        plan = self._plan
        row, view = sample
        is_excluded = plan.is_excluded(row)
        calls = plan.requested_calls
        if not is_excluded:
            calls = plan.ranked_calls + plan.requested_calls
        for call in calls:
            self.compute(call, [sample])
        for call in plan.gathered_calls:
            if call in plan.model_calls or self._table.has_value(row, call):
                continue
            if not (is_excluded and call in plan.compared_among_kept):
                self._gather(sample, call)
        if plan.lacks_digest(row):
            digests = result_or_unknown(_digests, view)
            row.digest = None if isinstance(digests, Unknown) else digests

    def _gather(self, sample: ViewedSample, call: ScoreCall) -> None:
        """Set the data by which a score compares a sample with others."""
        row, view = sample
        score = self._plan.scores[call]
        assert isinstance(score, DatasetScore)
        data = result_or_unknown(score.gather, view)
        if isinstance(data, bytes):
            self._table.gathered[call][row.number] = data
        elif isinstance(data, Unknown):
            self._table.columns[call][row.number] = data
        else:
            error = TypeError(f"gather() returned {described(data)}: it must return bytes")
            self._table.columns[call][row.number] = failure_of(error)


def _digests(view: ShardView) -> str:
    """Return the hashes of the images of a sample, in hexadecimal digits."""
    return ";".join(digest.hex() for digest in view.digests())
