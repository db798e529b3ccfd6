"""Hands batches to workers, splits those that fail, and gives the results back in the order of the rows."""

import contextlib
import heapq
import logging
import os
import shutil
import tempfile
from collections.abc import Generator
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from wdsflow.engines.retries import MAP_STARTS, rows_again
from wdsflow.memory.sizes import format_size
from wdsflow.memory.usage import HeldMemory

from .map_process import MapWorker, Watch
from .map_worker import Done, Failed, MappingError, MapSetup, RowBatch
from .sizing import Doubts, Sizer, fitting

log = logging.getLogger("wdsflow.mapping")

_NEAR = 0.8  # of its room: whoever fails there fails for want of memory, whatever it says
_SILENCE = 1.0  # seconds, after which workers are looked at: a line may stay open without them


_LEAST = 16 << 20  # bytes of room below which a worker can do nothing


class Team:
    """Shares the memory among workers. There is one until its first batch tells how many fit."""

    def __init__(self, setup: MapSetup, memory: int, most: int, sizer: Sizer) -> None:
        self.setup, self.memory, self.most, self.sizer = setup, memory, most, sizer
        # Something may grow for a moment before it is noticed.
        self.usable = memory - max(memory // 20, 16 << 20)
        self.target = 1
        self.workers: list[MapWorker] = []
        self._held = HeldMemory()

    def busy(self) -> list[MapWorker]:
        """Return the workers that have a batch."""
        return [worker for worker in self.workers if worker.batch is not None]

    def waiting(self) -> MapWorker | None:
        """Return a worker that has begun and has no batch."""
        return next((worker for worker in self.workers if worker.idle and worker.batch is None), None)

    def fill(self, count: int) -> None:
        """Start and end workers until there are so many; those that have a batch stay."""
        spare = [worker for worker in self.workers if worker.batch is None]
        for worker in sorted(spare, key=lambda worker: worker.idle, reverse=True)[: max(len(self.workers) - count, 0)]:
            self.drop(worker)
        while len(self.workers) < count:
            self.workers.append(MapWorker(self.setup))

    def drop(self, worker: MapWorker) -> None:
        """End a worker."""
        self.workers.remove(worker)
        worker.close()

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.close()

    def room(self, worker: MapWorker, *, alone: bool) -> int:
        """Return by how many bytes a worker may grow. Raises MappingError if that is next to nothing."""
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
        """Take in what a worker takes after a batch; decide again how many workers there are to be."""
        worker.idle = self._held(worker.pid)
        worker.base = worker.base or worker.idle
        if worker.idle - worker.base > worker.room // 2:  # it keeps more and more
            self.drop(worker)
        memory, most = self.usable - self._held(os.getpid()), self.most
        if batches_left is not None:
            most = max(1, min(most, batches_left + len(self.busy())))
        fits = fitting(memory, worker.idle, self.sizer.need, most)
        # One more is not worth its start where it would soon be one too many.
        self.target = max(min(self.target, fits), fitting(memory, worker.idle, self.sizer.need * 1.5, most))


class BatchSource(Protocol):
    """Where rows come from."""

    def take(self, rows: int, room: int) -> RowBatch | None:
        """Return the next rows, not more than so many, nor than so many bytes; None if there are no more."""

    def left(self) -> int | None:
        """Return how many rows are left, None if nobody knows."""


class Result(NamedTuple):
    """What became of a batch: the worker's answer and a file, or of a row: why it failed."""

    batch: RowBatch
    answer: Any = None
    path: Path | None = None
    size: int = 0
    failed: Failed | None = None


class MapEngine:
    """One run. ``ahead``: bytes of results that may wait until those before them are there."""

    def __init__(self, team: Team, source: BatchSource, folder: Path, ahead: int | None = None) -> None:
        self.team, self.source, self.ahead = team, source, ahead
        self.folder = Path(tempfile.mkdtemp(prefix="batches-", dir=folder))
        self._again: list[tuple[int, RowBatch]] = []  # to be mapped again
        self._results: dict[int, Result] = {}  # by their first row
        self._paths: dict[int, Path] = {}  # of batches that are worked on
        self._files = 0
        self._ended = False  # the source has
        self._failed_starts = 0
        self._doubts = Doubts()

    def run(self) -> Generator[Result, None, None]:
        """Yield what became of each batch, in order. A file is removed when the next result is asked for."""
        position = 0
        try:
            with contextlib.closing(Watch(self.team.memory - self.team.memory // 50, lambda: self.team.workers)):
                while True:
                    self._dispatch()
                    while position in self._results:
                        result = self._results.pop(position)
                        position = result.batch.stop
                        self._doubts.pass_by(result.batch, failed=result.failed is not None)
                        yield result
                        if result.path is not None:
                            result.path.unlink(missing_ok=True)
                        self._dispatch()
                    if self._ended and not self._again and not self.team.busy():
                        return
                    self._receive()
        finally:
            self.team.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _dispatch(self) -> None:
        """Give each worker that waits a batch."""
        team = self.team
        while not (self._ended and not self._again):
            busy = team.busy()
            alone = bool(self._again) and self._again[0][1].alone
            if any(worker.batch and worker.batch.alone for worker in busy) or (alone and busy):
                return
            team.fill(1 if alone else team.target)
            worker = team.waiting()
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
        worker.ask(batch, path, room)
        return True

    def _receive(self) -> None:
        workers = {worker.line: worker for worker in self.team.workers}
        ready: list[Any] = wait(list(workers), _SILENCE)
        ended = [] if ready else [worker for worker in workers.values() if worker.gone()]
        answers = [(workers[line], workers[line].answer()) for line in ready]
        for worker, answer in [*answers, *((worker, worker.death()) for worker in ended)]:
            batch = worker.batch
            if batch is None:
                self._begun(worker, answer)
                continue
            worker.batch = None
            path = self._paths.pop(batch.start)
            if isinstance(answer, Done):
                self.team.sizer.learn(len(batch), answer.measure.grown)
                done = RowBatch(batch.start, batch.stop)  # its rows are of no use any more
                self._results[batch.start] = Result(done, answer.answer, path, answer.measure.results)
                self.team.settle(worker, self._batches_left(worker.room))
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
        self.team.drop(worker)  # another takes its place

    def _split(self, worker: MapWorker, batch: RowBatch, answer: Failed) -> None:
        """Map the rows of a batch that failed again, as the policy of retries has it."""
        full = batch.alone or (self.team.target == 1 and answer.kind != "died")
        grown = answer.measure.grown if answer.measure else 0
        memory = answer.kind == "memory" or grown > _NEAR * worker.room
        if answer.measure is None:  # it is gone
            self.team.drop(worker)
        rows = f"row {batch.start}" if len(batch) == 1 else f"rows {batch.start} to {batch.stop - 1}"
        if answer.kind == "refused":
            raise MappingError(f"{rows}: {answer.text}", detail=answer.detail)
        if answer.kind == "full":  # no row's fault: it is not to be dropped for that
            where = f"results go to {self.folder.parent}"
            raise MappingError(f"the disk is full, at {rows}: {answer.text}; {where}", detail=answer.detail)
        log.info("%s: %s (%s may grow by %s)", rows, answer.text, "the worker", format_size(worker.room))
        what = rows_again(len(batch), had_all=full, may_be_blameless=memory or answer.kind == "died")
        if what == "halves":
            if memory:
                self.team.sizer.too_much(len(batch))
            elif answer.kind == "error":
                self._doubts.note(batch, answer)
            for half in batch.halves():
                heapq.heappush(self._again, (half.start, half))
        elif what == "alone":
            heapq.heappush(self._again, (batch.start, RowBatch(batch.start, batch.stop, batch.rows, alone=True)))
        else:
            if memory:
                more = f"; it could have {format_size(worker.room)} of {format_size(self.team.memory)}"
                answer = Failed(answer.kind, answer.text + more, answer.detail)
            self._results[batch.start] = Result(batch, failed=answer)

    def _batches_left(self, room: int) -> int | None:
        left = self.source.left()
        return None if left is None else -(-left // self.team.sizer.rows(room)) + len(self._again)
