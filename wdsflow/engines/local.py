"""Engines of one machine: worker processes, or the process that asks."""

import collections
import contextlib
import queue
import signal
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from wdsflow.lazy import leave_pandas_out
from wdsflow.old_objects import old_objects_kept

from .base import Engine, T, Task, Trouble, Work, trouble_of
from .peer import Mark, Peer, TaskProgress, receive, send, take_line
from .retries import TaskDeaths
from .site import processes_pay


class LocalEngine(Engine[T]):
    """Works in processes, each fed by a thread. ``inherit``: descriptors that workers hold open."""

    def __init__(self, function: Work, workers: int, inherit: Sequence[int] = ()) -> None:
        self._function, self._limit, self._inherit = function, workers, inherit
        self._todo: queue.SimpleQueue[T | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[T, Any] | BaseException] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._workers: list[Worker] = []
        self._waiting = 0

    @property
    def width(self) -> int:
        """Twice as many tasks as processes: none waits for the next."""
        return 2 * self._limit

    def submit(self, task: T) -> None:
        """Take a task."""
        self._todo.put(task)
        self._waiting += 1
        if len(self._threads) < min(self._waiting, self._limit):
            worker = self.start_worker()
            self._workers.append(worker)
            self._threads.append(threading.Thread(target=self._serve, args=(worker,), daemon=True))
            self._threads[-1].start()

    def start_worker(self) -> "Worker":
        """Return a new worker."""
        return Worker(self._function, self._inherit)

    def next(self) -> tuple[T, Any]:
        """Wait for an answer."""
        item = self._done.get()
        if isinstance(item, BaseException):
            raise item
        self._waiting -= 1
        return item

    def under_way(self) -> list[tuple[T, TaskProgress]]:
        """Return the tasks that workers have begun."""
        return [
            found for worker in list(self._workers) if (found := worker.under_way()) is not None
        ]

    def close(self) -> None:
        """End the workers, then the threads that wait for them."""
        for _ in self._threads:
            self._todo.put(None)
        for worker in self._workers:
            worker.stop()
        for thread in self._threads:
            thread.join()
        for worker in self._workers:
            worker.close()

    def _serve(self, worker: "Worker") -> None:
        try:
            while (task := self._todo.get()) is not None:
                answer = worker.work(task)
                if answer is None:
                    return
                self._done.put((task, answer))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._done.put(error)


class OwnProcess(Engine[T]):
    """Works in the process that asks."""

    width = 1

    def __init__(self, function: Work) -> None:
        self._function = function
        self._todo: collections.deque[T] = collections.deque()
        self._mark = Mark()
        self._task: T | None = None

    def submit(self, task: T) -> None:
        """Take a task."""
        self._todo.append(task)

    def next(self) -> tuple[T, Any]:
        """Work on the oldest task."""
        self._task = task = self._todo.popleft()
        try:
            with old_objects_kept():
                return task, self._function(task, self._mark)
        except Exception as error:  # noqa: BLE001 - reported as by a worker
            return task, trouble_of(error)
        finally:
            self._task = None
            self._mark.begin()

    def under_way(self) -> list[tuple[T, TaskProgress]]:
        """Return the task that is begun."""
        task = self._task
        return [(task, self._mark.progress)] if task is not None and self._mark.is_begun else []

    def close(self) -> None:
        """Free the memory of the mark."""
        self._mark.close()


class FirstHere(Engine[T]):
    """Works in this process until processes would be quicker with the rest, then in processes.

    ``size``: the bytes of a task, which predict its time; ``total``: those of all tasks.
    """

    def __init__(
        self,
        function: Work,
        workers: int,
        size: Callable[[T], int],
        total: int,
        inherit: Sequence[int] = (),
    ) -> None:
        self._here = OwnProcess[T](function)
        self._processes: LocalEngine[T] | None = None
        self._start = partial(LocalEngine[T], function, workers, inherit)
        self._size, self._left, self._done, self._used = size, total, 0, 0.0

    @property
    def width(self) -> int:
        """1 in this process."""
        return 1 if self._processes is None else self._processes.width

    def submit(self, task: T) -> None:
        """Take a task, and decide where to work on it: in this process no other is under way."""
        if (
            self._processes is None
            and self._done
            and processes_pay(self._used, self._done, self._left)
        ):
            self._processes = self._start()
        (self._processes or self._here).submit(task)

    def next(self) -> tuple[T, Any]:
        """Wait for an answer."""
        if self._processes is not None:
            return self._processes.next()
        start = time.process_time()
        task, answer = self._here.next()
        self._used += time.process_time() - start
        size = self._size(task)
        self._done, self._left = self._done + size, self._left - size
        return task, answer

    def under_way(self) -> list[tuple[T, TaskProgress]]:
        """Return the tasks that are begun."""
        return (self._processes or self._here).under_way()

    def close(self) -> None:
        """End the processes, if there are any."""
        if self._processes is not None:
            self._processes.close()
        self._here.close()


class Worker:
    """A process that works on one task at a time, and its successors after deaths: see ``retries``.

    ``inherit``: descriptors that the process holds open; ``folder``: where it starts.
    """

    def __init__(
        self, function: Work, inherit: Sequence[int] = (), folder: str | None = None
    ) -> None:
        self._function, self._inherit, self._folder = function, tuple(inherit), folder
        # Workers import this module, too.
        import tempfile

        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by ``close``
        try:
            self._mark = Mark(self._file.fileno())
        except OSError:
            # The disk is full.
            self._file.close()
            raise
        self._peer: Peer | None = None
        self._lock = threading.Lock()
        self._stopped = False
        self._task: Any = None

    def work(self, task: Task) -> Any:
        """Return the answer to a task, or Trouble; None if it was stopped."""
        self._task = task
        try:
            return self._answer(task)
        finally:
            self._task = None
            self._mark.begin()

    def under_way(self) -> tuple[Any, TaskProgress] | None:
        """Return the task that is begun, and how much of it is done."""
        task = self._task
        return (task, self._mark.progress) if task is not None and self._mark.is_begun else None

    def _answer(self, task: Task) -> Any:
        deaths = TaskDeaths()
        while not self._stopped:
            peer = self._peer or self._start()
            self._mark.begin()
            with contextlib.suppress(OSError, EOFError):
                return peer.ask((self._function, task))
            status = peer.wait()
            self._discard()
            blamed = deaths.add(self._mark.get())
            if deaths.too_many:
                where = f" at sample {deaths.last}" if deaths.last >= 0 else ""
                times = f"died {deaths.count} times{where} (exit status {status})"
                return Trouble(f"the process that worked on this shard {times}")
            if blamed is not None:
                task = task.without(blamed)
        return None

    def stop(self) -> None:
        """End the process; a thread in ``work`` returns. May be called from another thread."""
        with self._lock:
            self._stopped = True
            if self._peer is not None:
                self._peer.end()

    def close(self) -> None:
        """End the process, and wait for its end and that of all it started."""
        self.stop()
        self._discard()
        self._file.close()

    def _start(self) -> Peer:
        peer = Peer(
            f"from wdsflow.engines.local import serve; serve({self._mark.fd})",
            inherit=(self._mark.fd, *self._inherit),
            cwd=self._folder,
        )
        with self._lock:
            self._peer = peer
            if self._stopped:
                peer.end()
        return peer

    def _discard(self) -> None:
        with self._lock:
            peer, self._peer = self._peer, None
        if peer is not None:
            peer.close()


def serve(mark: int) -> None:
    """In the process: work on tasks until the line ends. ``mark``: a descriptor for ``Mark``."""
    # The process that asked decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = take_line()
    leave_pandas_out()
    note = Mark(mark)
    with contextlib.suppress(EOFError, OSError):
        while True:
            function, argument = receive(line)
            note.begin()
            try:
                with old_objects_kept():
                    answer = function(argument, note)
            except Exception as error:  # noqa: BLE001 - sent to the process that asked
                answer = trouble_of(error)
            send(line, answer)
