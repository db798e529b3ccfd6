"""Sends batches to workers, splits those that fail, and returns the results in row order."""

import contextlib
import heapq
import logging
import shutil
import tempfile
from collections.abc import Generator
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import NamedTuple, Protocol

from wdsflow.engines.retries import MAP_STARTS, retry_step
from wdsflow.memory.sizes import format_size

from .batch_failures import BatchFailures
from .errors import MappingError
from .map_worker import MapWorker
from .memory_watch import MemoryWatch
from .messages import Done, Failed, RowBatch
from .worker_pool import WorkerPool

log = logging.getLogger("wdsflow.mapping")

# The share of a worker's room beyond which a failure counts
# as out of memory, regardless of its message.
_NEARLY_FULL = 0.8
# Seconds until workers are checked: other processes may keep a dead worker's line open.
_SILENCE = 1.0


class BatchSource(Protocol):
    """The source of rows."""

    def take(self, rows: int, room: int) -> RowBatch | None:
        """Return the next rows, within limits of rows and bytes; None if none are left."""

    def rows_left(self) -> int | None:
        """Return the number of rows left, None if unknown."""


class Result(NamedTuple):
    """The result of a batch: the worker's answer and a file, or why a row failed."""

    batch: RowBatch
    answer: int | None = None
    path: Path | None = None
    size: int = 0
    failed: Failed | None = None


class MapEngine:
    """One run. ``ahead``: the most bytes of results that wait for earlier ones."""

    def __init__(
        self, pool: WorkerPool, source: BatchSource, folder: Path, ahead: int | None = None
    ) -> None:
        self.pool = pool
        self.source = source
        self.ahead = ahead
        self.folder = Path(tempfile.mkdtemp(prefix="batches-", dir=folder))
        # Batches to be mapped again, by their first row.
        self._retries: list[tuple[int, RowBatch]] = []
        # Results that wait for earlier ones, by their first row.
        self._results: dict[int, Result] = {}
        # The files for results of batches in work, by their first row.
        self._paths: dict[int, Path] = {}
        self._files = 0
        # No rows are left in the source.
        self._source_ended = False
        self._failed_starts = 0
        self._batch_failures = BatchFailures()

    def run(self) -> Generator[Result, None, None]:
        """Yield the result of each batch, in order.

        The file of a result is removed when the next one is requested.
        """
        memory = self.pool.memory - self.pool.memory // 50
        try:
            with contextlib.closing(MemoryWatch(memory, lambda: self.pool.workers)):
                yield from self._in_order()
        finally:
            for worker in self.pool.workers:
                worker.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _in_order(self) -> Generator[Result, None, None]:
        """Yield the results in the order of the rows, and keep the workers busy."""
        position = 0
        while True:
            self._dispatch()
            while position in self._results:
                result = self._results.pop(position)
                position = result.batch.stop
                self._batch_failures.record_done(result.batch, failed=result.failed is not None)
                yield result
                if result.path is not None:
                    result.path.unlink(missing_ok=True)
                self._dispatch()
            if self._source_ended and not self._retries and not self.pool.busy():
                return
            self._receive()

    def _dispatch(self) -> None:
        """Give each ready worker a batch."""
        pool = self.pool
        while self._retries or not self._source_ended:
            # A batch that needs all memory waits until no other runs.
            alone = bool(self._retries) and self._retries[0][1].alone
            busy = pool.busy()
            if busy and (alone or any(worker.batch and worker.batch.alone for worker in busy)):
                return
            pool.resize(1 if alone else pool.target)
            worker = pool.ready_worker()
            if worker is None:
                return
            room = pool.room(worker, alone=alone)
            if not room:
                pool.target -= 1
                continue
            if not self._send_next_batch(worker, room):
                return

    def _next_batch(self, room: int) -> RowBatch | None:
        """Return the next batch for a worker that may grow by ``room`` bytes.

        None if no batch is available now.
        """
        if self._retries:
            return heapq.heappop(self._retries)[1]
        waiting = sum(result.size for result in self._results.values())
        if self.ahead is not None and waiting > self.ahead:
            return None
        batch = self.source.take(self.pool.sizer.rows(room), room // 4)
        if batch is None:
            self._source_ended = True
        return batch

    def _send_next_batch(self, worker: MapWorker, room: int) -> bool:
        """Give a worker the next batch; return False if there is none now."""
        batch = self._next_batch(room)
        if batch is None:
            return False
        self._files += 1
        path = self.folder / f"{self._files:08d}.arrow"
        self._paths[batch.start] = path
        worker.send_batch(batch, path, room)
        return True

    def _receive(self) -> None:
        """Wait for answers of workers, and act on them."""
        for worker, answer in self._answers():
            batch = worker.batch
            if batch is None:
                self._handle_start(worker, answer)
                continue
            worker.batch = None
            path = self._paths.pop(batch.start)
            if isinstance(answer, Done):
                self.pool.sizer.record_success(len(batch), answer.measure.growth)
                # Its rows are not needed any more.
                without_rows = RowBatch(batch.start, batch.stop)
                self._results[batch.start] = Result(
                    without_rows, answer.answer, path, answer.measure.results
                )
                self.pool.update_target(worker, self._batches_left(worker))
            elif isinstance(answer, Failed):
                path.unlink(missing_ok=True)
                self._retry(worker, batch, answer)

    def _answers(self) -> list[tuple[MapWorker, Done | Failed | int]]:
        """Wait for workers, and return their answers.

        If none answers for a while, returns the deaths of workers that have ended.
        """
        workers = {worker.line: worker for worker in self.pool.workers}
        ready = wait(list(workers), _SILENCE)
        if not ready:
            return [
                (worker, worker.wait_for_failure())
                for worker in workers.values()
                if worker.has_ended()
            ]
        return [
            (worker, worker.receive_answer()) for line, worker in workers.items() if line in ready
        ]

    def _batches_left(self, worker: MapWorker) -> int | None:
        """Return how many batches remain; None if unknown.

        Assumes that all are as long as the worker's next one.
        """
        rows = self.source.rows_left()
        if rows is None:
            return None
        # Rounded up.
        return -(-rows // self.pool.sizer.rows(worker.room)) + len(self._retries)

    def _handle_start(self, worker: MapWorker, answer: int | Done | Failed) -> None:
        """Handle the first answer of a worker: it is ready, or could not start.

        Raises MappingError.
        """
        if isinstance(answer, int):
            worker.idle_memory = max(worker.memory_in_use(), 1)
            self._failed_starts = 0
            return
        assert isinstance(answer, Failed)
        if answer.kind == "refused":
            raise MappingError(
                f"fn cannot be used in a worker process: {answer.text}", detail=answer.detail
            )
        self._failed_starts += not worker.idle_memory
        if self._failed_starts >= MAP_STARTS:
            raise MappingError(f"no worker starts: {answer.text}")
        # It is replaced.
        self.pool.end_worker(worker)

    def _retry(self, worker: MapWorker, batch: RowBatch, answer: Failed) -> None:
        """Map the rows of a failed batch again, by the retry policy.

        Raises MappingError if no row is at fault.
        """
        had_all_memory = batch.alone or (self.pool.target == 1 and answer.kind != "died")
        grown = answer.measure.growth if answer.measure else 0
        is_memory = answer.kind == "memory" or grown > _NEARLY_FULL * worker.room
        if answer.measure is None:
            # The worker has ended.
            self.pool.end_worker(worker)
        rows = _rows_text(batch)
        if answer.kind == "refused":
            raise MappingError(f"{rows}: {answer.text}", detail=answer.detail)
        if answer.kind == "full":
            # The row is not at fault.
            text = f"the disk is full, at {rows}: {answer.text}; results go to {self.folder.parent}"
            raise MappingError(text, detail=answer.detail)
        log.info("%s: %s (the worker may grow by %s)", rows, answer.text, format_size(worker.room))
        action = retry_step(
            len(batch), had_all=had_all_memory, may_be_blameless=is_memory or answer.kind == "died"
        )
        if action == "halves":
            if is_memory:
                self.pool.sizer.record_out_of_memory(len(batch))
            elif answer.kind == "error":
                self._batch_failures.add(batch, answer)
            for half in batch.halves():
                heapq.heappush(self._retries, (half.start, half))
        elif action == "alone":
            alone = replace(batch, alone=True)
            heapq.heappush(self._retries, (batch.start, alone))
        else:
            if is_memory:
                room = format_size(worker.room)
                text = f"{answer.text}; it could have {room} of {format_size(self.pool.memory)}"
                answer = Failed(answer.kind, text, answer.detail)
            self._results[batch.start] = Result(batch, failed=answer)


def _rows_text(batch: RowBatch) -> str:
    if len(batch) == 1:
        return f"row {batch.start}"
    return f"rows {batch.start} to {batch.stop - 1}"
