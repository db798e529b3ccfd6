"""Doing work on chunks. Results come in the order of chunks."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from .planner import Chunk
from .tally import Loss
from .work import Made, Work

Results = list[Made | Loss]
Result = tuple[Chunk, Results]


class Engine(ABC):
    """Maps work over chunks that are made while it goes on: an empty chunk means that none is needed at the moment."""

    @abstractmethod
    def map(self, work: Work, chunks: Iterator[Chunk]) -> Iterator[Result]:
        """Yield each chunk with its results. Whoever stops before the end closes the iterator."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back."""


class Threads(Engine):
    """``count`` threads of this process, with ``ahead`` chunks on their way."""

    def __init__(self, count: int, ahead: int) -> None:
        self._ahead = max(ahead, 2 * count)
        self._pool = ThreadPoolExecutor(count, "wdsflow-decode")

    def map(self, work: Work, chunks: Iterator[Chunk]) -> Iterator[Result]:
        """Yield results; an error of the work is raised where its chunk would have come."""
        waiting: deque[tuple[Chunk, Future[Results] | None]] = deque()
        try:
            for chunk in chunks:
                waiting.append((chunk, self._pool.submit(work, chunk.tasks) if chunk.tasks else None))
                if len(waiting) >= self._ahead or not chunk.tasks:
                    yield self._first(waiting)
                while waiting and _is_done(waiting[0][1]):  # the next chunk may take long to come
                    yield self._first(waiting)
            while waiting:
                yield self._first(waiting)
        finally:
            for _, future in waiting:
                if future is not None:
                    future.cancel()

    @staticmethod
    def _first(waiting: "deque[tuple[Chunk, Future[Results] | None]]") -> Result:
        chunk, future = waiting.popleft()
        return chunk, future.result() if future is not None else []

    def close(self) -> None:
        """End the threads as soon as they have done what they are at."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _is_done(future: "Future[Results] | None") -> bool:
    return future is None or future.done()
