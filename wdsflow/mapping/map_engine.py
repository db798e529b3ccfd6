"""Sends batches to workers, splits those that fail, and returns the results in row order."""

import contextlib
import heapq
import logging
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Generator
from multiprocessing.connection import wait
from pathlib import Path
from typing import NamedTuple, Protocol

from wdsflow.engines.retries import MAP_STARTS, rows_again
from wdsflow.memory.sizes import format_size
from wdsflow.memory.usage import HeldMemory
from wdsflow.text.shell import escape

from .map_worker import Done, Failed, MappingError, MapSetup, MapWorker, RowBatch, Watch

log = logging.getLogger("wdsflow.mapping")

# Of its room: a failure beyond it counts as a lack of memory, regardless of its message.
_NEAR = 0.8
# Seconds until workers are checked: other processes may keep a dead worker's line open.
_SILENCE = 1.0
# Bytes of room below which a worker can do nothing.
_LEAST = 16 << 20
# Of the room that a worker has; rows differ.
_COMFORT = 0.6
# Successful batches, after which they may grow beyond the limit of one that ran out of memory.
_CLEAN = 8
# Rows that each of several workers has room for, at least.
_EACH = 2


class Sizer:
    """Estimates how much memory a row takes.

    A batch is at most twice as long as the longest so far, and half as long as one that ran out of memory. The second
    limit fades, because another program may have held the memory for a while.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._needs: deque[float] = deque(maxlen=16)
        self._longest = 0
        self._ceiling = float(most)
        self._clean = 0

    @property
    def need(self) -> float:
        """Bytes of a row, the maximum over the latest batches."""
        return max(self._needs, default=0.0)

    def rows(self, room: int) -> int:
        """Return how many rows to map at once if a worker may grow by ``room`` bytes."""
        fits = room * _COMFORT / self.need if self.need else self.most
        return max(1, int(min(fits, 2 * self._longest or 1, self._ceiling, self.most)))

    def learn(self, rows: int, grown: int) -> None:
        """Record a successful batch and the bytes that it took."""
        self._needs.append(grown / rows)
        self._longest = max(self._longest, rows)
        self._clean += 1
        if self._clean >= _CLEAN:
            self._clean, self._ceiling = 0, min(self._ceiling * 1.25 + 1, self.most)

    def too_much(self, rows: int) -> None:
        """Record a batch that ran out of memory."""
        self._clean, self._ceiling = 0, max(1.0, min(self._ceiling, rows / 2))


def fitting(memory: int, idle: int, need: float, most: int) -> int:
    """Return how many workers fit into ``memory`` bytes, each with room for two rows; at least 1, at most ``most``.

    ``idle``: bytes of a worker without rows.

    >>> fitting(2 << 30, 200 << 20, 60 << 20, 16)
    5
    """
    return max(1, min(most, int(memory // (idle + _EACH * need / _COMFORT + 1))))


class Team:
    """Shares the memory among workers. The first worker's first batch shows how many fit."""

    def __init__(self, setup: MapSetup, memory: int, most: int, sizer: Sizer) -> None:
        self.setup, self.memory, self.most, self.sizer = setup, memory, most, sizer
        # Growth is noticed a moment later.
        self.usable = memory - max(memory // 20, 16 << 20)
        self.target = 1
        self.workers: list[MapWorker] = []
        self._held = HeldMemory()

    def busy(self) -> list[MapWorker]:
        """Return the workers that have a batch."""
        return [worker for worker in self.workers if worker.batch is not None]

    def fill(self, count: int) -> MapWorker | None:
        """Start or end idle workers until there are ``count`` of them; return one that is ready for a batch."""
        spare = [worker for worker in self.workers if worker.batch is None]
        for worker in sorted(spare, key=lambda worker: worker.idle, reverse=True)[: max(len(self.workers) - count, 0)]:
            self.drop(worker)
        while len(self.workers) < count:
            self.workers.append(MapWorker(self.setup))
        return next((worker for worker in self.workers if worker.idle and worker.batch is None), None)

    def drop(self, worker: MapWorker) -> None:
        """End a worker."""
        self.workers.remove(worker)
        worker.close()

    def room(self, worker: MapWorker, *, alone: bool) -> int:
        """Return by how many bytes a worker may grow; 0 if too few. Raises MappingError if that cannot change."""
        here = self._held(os.getpid())
        room = (self.usable - here) // (1 if alone else self.target) - worker.idle
        if room >= _LEAST:
            return room
        if alone or self.target == 1:
            least = format_size((here + worker.idle + _LEAST) * 20 // 19 + _LEAST)
            raise MappingError(
                f"{format_size(self.memory)} is too little memory: this process takes {format_size(here)} by itself, and a"
                f" worker {format_size(worker.idle)}; nothing works below {least}"
            )
        return 0

    def settle(self, worker: MapWorker, batches_left: int | None) -> None:
        """Measure a worker after a batch, and decide how many workers there should be."""
        worker.idle = self._held(worker.pid)
        worker.base = worker.base or worker.idle
        # It leaks memory.
        if worker.idle - worker.base > worker.room // 2:
            self.drop(worker)
        memory, most = self.usable - self._held(os.getpid()), self.most
        if batches_left is not None:
            most = max(1, min(most, batches_left + len(self.busy())))
        fits = fitting(memory, worker.idle, self.sizer.need, most)
        # Starting another one is not worth it if it would soon have to end.
        self.target = max(min(self.target, fits), fitting(memory, worker.idle, self.sizer.need * 1.5, most))


class BatchFailures:
    """Warns, once, about a batch that failed although none of its rows fails in a smaller batch."""

    def __init__(self) -> None:
        # First row, row after the last, error.
        self._open: list[tuple[int, int, str]] = []
        self._warned = False

    def add(self, batch: RowBatch, failed: Failed) -> None:
        """Record a batch that failed for another reason than memory."""
        if not self._warned:
            self._open.append((batch.start, batch.stop, failed.text))

    def done(self, batch: RowBatch, *, failed: bool) -> None:
        """Record that the rows before ``batch.stop`` are done. ``failed``: the batch is one row, which failed."""
        if failed:
            self._open = [each for each in self._open if not each[0] <= batch.start < each[1]]
        ended = [each for each in self._open if each[1] <= batch.stop]
        if ended and not self._warned:
            start, stop, text = ended[0]
            log.warning(
                "rows %d to %d failed together (%s), but not in smaller batches: does fn take a batch for a whole?",
                start,
                stop - 1,
                escape(text, 300),
            )
            self._warned = True
        self._open = [each for each in self._open if each not in ended]


class BatchSource(Protocol):
    """The source of rows."""

    def take(self, rows: int, room: int) -> RowBatch | None:
        """Return the next rows, within limits of rows and bytes; None if none are left."""

    def left(self) -> int | None:
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

    def __init__(self, team: Team, source: BatchSource, folder: Path, ahead: int | None = None) -> None:
        self.team, self.source, self.ahead = team, source, ahead
        self.folder = Path(tempfile.mkdtemp(prefix="batches-", dir=folder))
        # To be mapped again.
        self._again: list[tuple[int, RowBatch]] = []
        # By their first row.
        self._results: dict[int, Result] = {}
        # Of batches in work.
        self._paths: dict[int, Path] = {}
        self._files = 0
        # The source has.
        self._ended = False
        self._failed_starts = 0
        self._batch_failures = BatchFailures()

    def run(self) -> Generator[Result, None, None]:
        """Yield the result of each batch, in order. Its file is removed when the next result is requested."""
        position = 0
        try:
            with contextlib.closing(Watch(self.team.memory - self.team.memory // 50, lambda: self.team.workers)):
                while True:
                    self._dispatch()
                    while position in self._results:
                        result = self._results.pop(position)
                        position = result.batch.stop
                        self._batch_failures.done(result.batch, failed=result.failed is not None)
                        yield result
                        if result.path is not None:
                            result.path.unlink(missing_ok=True)
                        self._dispatch()
                    if self._ended and not self._again and not self.team.busy():
                        return
                    self._receive()
        finally:
            for worker in self.team.workers:
                worker.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _dispatch(self) -> None:
        """Give each ready worker a batch."""
        team = self.team
        while not (self._ended and not self._again):
            busy = team.busy()
            alone = bool(self._again) and self._again[0][1].alone
            if any(worker.batch and worker.batch.alone for worker in busy) or (alone and busy):
                return
            worker = team.fill(1 if alone else team.target)
            if worker is None:
                return
            room = team.room(worker, alone=alone)
            if not room:
                team.target -= 1
                continue
            if not self._give(worker, room):
                return

    def _give(self, worker: MapWorker, room: int) -> bool:
        if self._again:
            batch: RowBatch | None = heapq.heappop(self._again)[1]
        else:
            if self.ahead is not None and sum(result.size for result in self._results.values()) > self.ahead:
                return False
            batch = self.source.take(self.team.sizer.rows(room), room // 4)
        if batch is None:
            self._ended = True
            return False
        self._files += 1
        path = self._paths[batch.start] = self.folder / f"{self._files:08d}.arrow"
        worker.give(batch, path, room)
        return True

    def _receive(self) -> None:
        workers = {worker.line: worker for worker in self.team.workers}
        ready = wait(list(workers), _SILENCE)
        answers = [(workers[line], workers[line].answer()) for line in workers if line in ready]
        if not ready:
            answers = [(worker, worker.death()) for worker in workers.values() if worker.gone()]
        for worker, answer in answers:
            batch = worker.batch
            if batch is None:
                self._begun(worker, answer)
                continue
            worker.batch = None
            path = self._paths.pop(batch.start)
            if isinstance(answer, Done):
                self.team.sizer.learn(len(batch), answer.measure.grown)
                # Without its rows.
                done = RowBatch(batch.start, batch.stop)
                self._results[batch.start] = Result(done, answer.answer, path, answer.measure.results)
                left = self.source.left()
                if left is not None:
                    left = -(-left // self.team.sizer.rows(worker.room)) + len(self._again)
                self.team.settle(worker, left)
            elif isinstance(answer, Failed):
                path.unlink(missing_ok=True)
                self._split(worker, batch, answer)

    def _begun(self, worker: MapWorker, answer: int | Done | Failed) -> None:
        if isinstance(answer, int):
            worker.idle, self._failed_starts = max(worker.takes(), 1), 0
            return
        assert isinstance(answer, Failed)
        if answer.kind == "refused":
            raise MappingError(f"fn cannot be used in a worker process: {answer.text}", detail=answer.detail)
        self._failed_starts += not worker.idle
        if self._failed_starts >= MAP_STARTS:
            raise MappingError(f"no worker starts: {answer.text}")
        # It is replaced.
        self.team.drop(worker)

    def _split(self, worker: MapWorker, batch: RowBatch, answer: Failed) -> None:
        """Map the rows of a failed batch again, by the policy of retries."""
        full = batch.alone or (self.team.target == 1 and answer.kind != "died")
        grown = answer.measure.grown if answer.measure else 0
        memory = answer.kind == "memory" or grown > _NEAR * worker.room
        # The worker has ended.
        if answer.measure is None:
            self.team.drop(worker)
        rows = f"row {batch.start}" if len(batch) == 1 else f"rows {batch.start} to {batch.stop - 1}"
        if answer.kind == "refused":
            raise MappingError(f"{rows}: {answer.text}", detail=answer.detail)
        # The row is not at fault.
        if answer.kind == "full":
            text = f"the disk is full, at {rows}: {answer.text}; results go to {self.folder.parent}"
            raise MappingError(text, detail=answer.detail)
        log.info("%s: %s (the worker may grow by %s)", rows, answer.text, format_size(worker.room))
        what = rows_again(len(batch), had_all=full, may_be_blameless=memory or answer.kind == "died")
        if what == "halves":
            if memory:
                self.team.sizer.too_much(len(batch))
            elif answer.kind == "error":
                self._batch_failures.add(batch, answer)
            for half in batch.halves():
                heapq.heappush(self._again, (half.start, half))
        elif what == "alone":
            heapq.heappush(self._again, (batch.start, RowBatch(batch.start, batch.stop, batch.rows, alone=True)))
        else:
            if memory:
                more = f"; it could have {format_size(worker.room)} of {format_size(self.team.memory)}"
                answer = Failed(answer.kind, answer.text + more, answer.detail)
            self._results[batch.start] = Result(batch, failed=answer)
