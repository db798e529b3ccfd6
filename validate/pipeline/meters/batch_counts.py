"""How many samples the batches of a run hold, by what the stages and other batches of them show."""

from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

from ..values.elements import lengths_of, samples_in
from .reported_stage import ReportedStage


class _FullBatch(NamedTuple):
    """What a full batch of a stage looks like: a list of columns, or of records with fields."""

    kind: Literal["columns", "records"]
    # Columns, or fields of a record.
    fields: int


class BatchCounts:
    """Counts samples in batches.

    Args:
        stages: of the process.
        keys: of the samples in the shards.
    """

    def __init__(self, stages: Sequence[ReportedStage], keys: Collection[str]) -> None:
        # Of the latest batch that came out of the last stage; None: unknown.
        self.samples_in_last: int | None = None
        self._stages = stages
        self._keys = keys
        # Of each stage that gives lists of lists.
        self._full_batches: dict[int, _FullBatch] = {}

    def samples_in(self, index: int, batch: object) -> int | None:
        """Return the number of samples in a batch that a stage yields; None if it is unclear.

        ``index``: of the stage.
        """
        size = self._size_before(index)
        count = samples_in(batch, self._keys, size)
        lengths = lengths_of(batch)
        if size and lengths is not None:
            outer, inner = lengths
            count = self._of_nested_lists(index, outer, inner, size, count)
        if count is None and size == 1:
            # Whatever a batch of one sample was made into.
            count = 1
        if index == len(self._stages) - 1:
            self.samples_in_last = count
        return count

    def _size_before(self, index: int) -> int:
        """Return the size of full batches of the nearest stage up to this one; 0 if unknown."""
        for stage in reversed(self._stages[: index + 1]):
            if stage.batch > 0:
                return stage.batch
        return 0

    def _of_nested_lists(
        self, index: int, outer: int, inner: int, size: int, count: int | None
    ) -> int | None:
        """Return the number of samples in a batch; None if it is unclear.

        A batch that is not full is read like the full ones of its stage: as columns, or as records
        with the same number of fields.

        Args:
            index: of the stage.
            outer: length of the batch.
            inner: length of each list in it.
            size: of a full batch.
            count: of the samples, as the batch itself shows; None if it does not.
        """
        is_clear = (outer == size) != (inner == size)
        if count == size and is_clear:
            full_batch = (
                _FullBatch("columns", outer) if inner == size else _FullBatch("records", inner)
            )
            self._full_batches[index] = full_batch
        if count is None:
            full = self._full_batches.get(index)
            if full == _FullBatch("columns", outer):
                count = inner
            elif full == _FullBatch("records", inner):
                count = outer
        return None if count is None or count > size else count
