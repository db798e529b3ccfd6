"""Work in the worker processes of a torch DataLoader: for transforms of which nothing is known.

They may keep state, or ask torch which worker they are in. Imports torch in functions only.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from .engines import Engine, Result
from .parcels import Parcel, pack, unpack
from .planner import Chunk
from .work import Work

_MOST_AHEAD = 64  # chunks of a worker process: each takes two open files of it


class LoaderWorkers(Engine):
    """``count`` worker processes, with about ``ahead`` chunks on their way."""

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
