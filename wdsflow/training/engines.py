"""Doing work on chunks: in threads, or in the worker processes of a DataLoader. Results come in the order of chunks.

Imports torch in functions only.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from .parcels import Parcel, pack, unpack
from .planner import Chunk
from .tally import Loss
from .work import Made, Work

_MOST_AHEAD = 64  # chunks of a worker process: each takes two open files of it

Result = tuple[Chunk, list[Made | Loss]]


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
        on_their_way: deque[tuple[Chunk, Future[list[Made | Loss]] | None]] = deque()
        try:
            for chunk in chunks:
                on_their_way.append((chunk, self._pool.submit(work, chunk.tasks) if chunk.tasks else None))
                if len(on_their_way) >= self._ahead or not chunk.tasks:
                    yield self._first(on_their_way)
                while on_their_way and _is_done(on_their_way[0][1]):  # the next chunk may take long to come
                    yield self._first(on_their_way)
            while on_their_way:
                yield self._first(on_their_way)
        finally:
            for _, future in on_their_way:
                if future is not None:
                    future.cancel()

    @staticmethod
    def _first(waiting: "deque[tuple[Chunk, Future[list[Made | Loss]] | None]]") -> Result:
        chunk, future = waiting.popleft()
        return chunk, future.result() if future is not None else []

    def close(self) -> None:
        """End the threads as soon as they have done what they are at."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _is_done(future: "Future[list[Made | Loss]] | None") -> bool:
    return future is None or future.done()


class Processes(Engine):
    """Worker processes of a torch DataLoader: for transforms that are not known to be safe in threads."""

    def __init__(self, count: int, ahead: int) -> None:
        self._count, self._ahead = count, min(max(2, -(-ahead // count)), _MOST_AHEAD)

    def map(self, work: Work, chunks: Iterator[Chunk]) -> Iterator[Result]:
        """Yield results; what a worker raises is raised here, by its own type where that can be done."""
        import torch
        from torch.utils.data import DataLoader

        sent: deque[Chunk] = deque()
        loader: Any = DataLoader(
            _Mapped(work),  # type: ignore[arg-type]
            batch_sampler=_Noted(chunks, sent),  # type: ignore[arg-type]
            num_workers=self._count,
            prefetch_factor=self._ahead,
            collate_fn=_as_it_is,  # type: ignore[arg-type]
            generator=torch.Generator(),  # the user's own stays as it is
        )
        running = iter(loader)
        try:
            for parcel in running:
                yield sent.popleft(), unpack(parcel)
        finally:
            stop: Callable[[], None] | None = getattr(running, "_shutdown_workers", None)
            if stop is not None:
                stop()

    def close(self) -> None:
        """Do nothing: processes end with the iterator."""


class _Mapped:
    """A dataset whose indices are tasks."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __getitems__(self, chunk: Chunk) -> Parcel:
        return pack(self._work(chunk.tasks))


class _Noted:
    def __init__(self, chunks: Iterator[Chunk], sent: "deque[Chunk]") -> None:
        self._chunks, self._sent = chunks, sent

    def __iter__(self) -> Iterator[Chunk]:
        for chunk in self._chunks:
            self._sent.append(chunk)
            yield chunk


def _as_it_is(parcel: Parcel) -> Parcel:
    return parcel
