"""Hands batches to workers, splits those that fail, and gives the results back in the order of the rows."""

import contextlib
import heapq
import logging
import shutil
import tempfile
from collections.abc import Generator
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from wdsflow.memory.sizes import format_size

from .map_messages import Done, Failed, MappingError, RowBatch
from .map_process import MapWorker
from .memory_watch import Watch
from .sizing import Doubts
from .team import Team

log = logging.getLogger("wdsflow.mapping")

_NEAR = 0.8  # of its room: whoever fails there fails for want of memory, whatever it says
_MOST_STARTS = 10  # that fail in a row: somebody may have killed one
_SILENCE = 1.0  # seconds, after which workers are looked at: a line may stay open without them


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
        if self._failed_starts >= _MOST_STARTS:
            raise MappingError(f"no worker starts: {answer.text}")
        self.team.drop(worker)  # another takes its place

    def _split(self, worker: MapWorker, batch: RowBatch, answer: Failed) -> None:
        """Map the rows of a batch that failed again: each half by itself, a single row with all memory.

        A row is not to blame for the first death of a worker: somebody else may have killed that.
        """
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
        if len(batch) > 1:
            if memory:
                self.team.sizer.too_much(len(batch))
            elif answer.kind == "error":
                self._doubts.note(batch, answer)
            for half in batch.halves():
                heapq.heappush(self._again, (half.start, half))
        elif not full and (memory or answer.kind == "died"):
            heapq.heappush(self._again, (batch.start, RowBatch(batch.start, batch.stop, batch.rows, alone=True)))
        else:
            if memory:
                more = f"; it could have {format_size(worker.room)} of {format_size(self.team.memory)}"
                answer = Failed(answer.kind, answer.text + more, answer.detail)
            self._results[batch.start] = Result(batch, failed=answer)

    def _batches_left(self, room: int) -> int | None:
        left = self.source.left()
        return None if left is None else -(-left // self.team.sizer.rows(room)) + len(self._again)
