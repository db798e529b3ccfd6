"""The results of a pass: what workers return for shards, in the report and in the record."""

from collections.abc import Sequence

from wdsflow.engines.base import WorkerFailure
from wdsflow.filtering.deciding.broken_scores import BrokenRunGuard
from wdsflow.filtering.run_options import OutputError
from wdsflow.filtering.run_record import RunRecord
from wdsflow.filtering.run_report import RunReport
from wdsflow.filtering.shard.shard_task import ShardTask
from wdsflow.records.run_folder import ShardFailure, ShardRecord
from wdsflow.shards.atomic import UNREADABLE


class PassResults:
    """Adds the results of shards to a report, and to a record once they count as done.

    Args:
        report: has the shards that were done before, and gets the others.
        record: None: nothing is recorded.
    """

    def __init__(self, report: RunReport, record: RunRecord | None) -> None:
        self._report = report
        self._record = record
        self._guard = BrokenRunGuard(report.records)

    def add(self, task: ShardTask, answer: object) -> ShardRecord | ShardFailure:
        """Add the answer to a task. Return the result of the shard.

        Raises OutputError if an output could not be written, BrokenRunError if a worker failed
        because of a score that no shard has proven.
        """
        if isinstance(answer, WorkerFailure):
            return self._add_worker_failure(task, answer)
        if isinstance(answer, ShardFailure):
            self._report.failures.append(answer)
            return answer
        assert isinstance(answer, ShardRecord)
        self._report.records.append(answer)
        return answer

    def record(self, result: ShardRecord | ShardFailure) -> None:
        """Record the shards that are done, now that a result has come.

        Raises OutputError; BrokenRunError if a score fails for all samples of the shards held back.
        """
        if isinstance(result, ShardRecord):
            self._write(self._guard.accept(result))

    def finish(self) -> None:
        """Record the shards that were held back. Raises OutputError."""
        self._write(self._guard.release())

    def _add_worker_failure(self, task: ShardTask, error: WorkerFailure) -> ShardFailure:
        # A fault of the output: all others would fail too.
        if error.errno and error.errno not in UNREADABLE:
            raise OutputError(error.errno, error.text)
        failure = ShardFailure(task.shard, task.url, task.name, error.text)
        self._report.failures.append(failure)
        self._guard.accept_failure(failure, error.broken_part)
        return failure

    def _write(self, done: Sequence[ShardRecord]) -> None:
        if self._record is None:
            return
        for shard in done:
            try:
                self._record.add(shard)
            except OSError as error:
                raise OutputError(error.errno, error.strerror, error.filename) from error
