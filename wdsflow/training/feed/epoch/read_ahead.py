"""Reading ahead in a thread, for shards that cannot seek."""

import contextlib
import queue
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Generic, NamedTuple, TypeVar

from wdsflow.shards.source.streams import end_commands

T = TypeVar("T")

# Items that were read ahead.
_MOST_WAITING = 4096
# Seconds.
_POLL = 0.2


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
        self._ready: queue.Queue[T | _End] = queue.Queue(_MOST_WAITING)
        self._held = 0
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="wdsflow-ahead", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        while True:
            try:
                item = self._ready.get(timeout=_POLL)
            except queue.Empty:
                self._idle()
                continue
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            with self._changed:
                self._held -= self._weigh(item)
                self._changed.notify()
            yield item

    def close(self) -> None:
        """End the thread after its current read; kill a command that it waits for."""
        self._stop.set()
        end_commands(self._thread)

    def _read(self) -> None:
        error: BaseException | None = None
        try:
            with contextlib.closing(self._items) as items:
                for item in items:
                    size = self._weigh(item)
                    with self._changed:
                        while (
                            self._held
                            and self._held + size > self._most
                            and not self._stop.is_set()
                        ):
                            self._changed.wait(_POLL)
                        self._held += size
                    if not self._put(item):
                        return
        except BaseException as caught:  # noqa: BLE001 - raised where items are taken
            error = caught
        self._put(_End(error))

    def _put(self, item: T | _End) -> bool:
        while not self._stop.is_set():
            with contextlib.suppress(queue.Full):
                self._ready.put(item, timeout=_POLL)
                return True
        return False
