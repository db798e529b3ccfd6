"""Reading ahead in a thread, for shards that cannot seek."""

import contextlib
import queue
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Generic, NamedTuple, TypeVar

from wdsflow.shards.source.streams import end_commands

T = TypeVar("T")

# Bytes that are handed over together: for each item alone, two threads would have to wait for each
# other as often.
_PIECE = 32 << 10
# Seconds.
_POLL = 0.2


class _Piece(NamedTuple, Generic[T]):
    items: list[T]
    # Bytes.
    size: int


class _End(NamedTuple):
    error: BaseException | None


class ReadAhead(Generic[T]):
    """Iterates in a thread, at most ``most_bytes`` by ``weigh`` ahead of the caller, in order.

    While the caller waits, it calls ``idle`` periodically, which may raise. The thread closes
    ``items``.
    """

    def __init__(
        self,
        items: Generator[T, None, None],
        weigh: Callable[[T], int],
        most_bytes: int,
        idle: Callable[[], None],
    ) -> None:
        self._items, self._weigh, self._most, self._idle = items, weigh, most_bytes, idle
        self._piece_size = min(_PIECE, most_bytes // 4)
        self._ready: queue.SimpleQueue[_Piece[T] | _End] = queue.SimpleQueue()
        # Bytes of the pieces there.
        self._held = 0
        self._changed = threading.Condition()
        # An Event has a lock, which a thread might hold that then abandons this in a garbage
        # collection.
        self._stopped = False
        self._thread = threading.Thread(target=self._read, name="wdsflow-ahead", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        while True:
            try:
                piece = self._ready.get(timeout=_POLL)
            except queue.Empty:
                self._idle()
                continue
            if isinstance(piece, _End):
                if piece.error is not None:
                    raise piece.error
                return
            with self._changed:
                self._held -= piece.size
                self._changed.notify()
            yield from piece.items

    def close(self) -> None:
        """End the thread after its current read; kill a command that it waits for."""
        self.abandon()
        end_commands(self._thread)

    def abandon(self) -> None:
        """End the thread soon. Takes no lock: garbage collection may call it anywhere."""
        self._stopped = True

    def _read(self) -> None:
        error: BaseException | None = None
        try:
            with contextlib.closing(self._items) as items:
                self._put_all(items)
        except BaseException as caught:  # noqa: BLE001 - raised where items are taken
            error = caught
        if error is None and self._stopped:
            # These may not be all items.
            error = RuntimeError("reading ahead was stopped")
        self._ready.put(_End(error))

    def _put_all(self, items: Iterator[T]) -> None:
        """Hand over all items in pieces, also those before an error."""
        together: list[T] = []
        size = 0
        try:
            for item in items:
                together.append(item)
                size += self._weigh(item)
                if size >= self._piece_size:
                    self._put(_Piece(together, size))
                    together, size = [], 0
                if self._stopped:
                    return
        finally:
            # Also before an error: the caller gets what comes before it.
            self._put(_Piece(together, size))

    def _put(self, piece: _Piece[T]) -> None:
        """Hand over a piece once there is room for it, or if there is nothing else."""
        with self._changed:
            while self._held and self._held + piece.size > self._most and not self._stopped:
                self._changed.wait(_POLL)
            self._held += piece.size
        self._ready.put(piece)
