"""Works on shards in several processes, and survives the death of one.

Workers are plain subprocesses, not multiprocessing: spawn would run the caller's script again where it has no
``__main__`` guard, and fork copies a process that may hold threads. A worker that dies costs its shard another try.
If it dies again at the same sample, that sample is named in the next try, and put aside by it.
"""

import contextlib
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from wdsflow.filtering.mark import Mark
from wdsflow.filtering.worker import Trouble, receive, send, trouble_of

_MOST_DEATHS = 12  # of workers for one shard


class Task(Protocol):
    """What a worker is asked to do; picklable."""

    def without(self, sample: int) -> "Task":
        """Return the same task with a sample put aside that kills whoever touches it."""


T = TypeVar("T", bound=Task)
Work = Callable[[Any, Mark], Any]
Done = tuple[T, Any]  # the answer, or Trouble


def work_on(tasks: Sequence[T], function: Work, workers: int, inherit: Sequence[int] = ()) -> Iterator[Done[T]]:
    """Call ``function(task, mark)`` for each task in ``workers`` processes, and yield each with its answer when it is done.

    ``function`` is a module's. 0 workers work in this process. ``inherit``: descriptors that workers hold open. When
    the iteration is given up, workers are stopped at once.
    """
    if workers <= 0:
        yield from _here(tasks, function)
        return
    pool = _Pool(tasks, function, inherit)
    threads = [threading.Thread(target=pool.serve, daemon=True) for _ in range(min(workers, len(tasks)))]
    for thread in threads:
        thread.start()
    try:
        for _ in tasks:
            item = pool.done.get()
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        pool.stop()
        for thread in threads:
            thread.join()


def _here(tasks: Sequence[T], function: Work) -> Iterator[Done[T]]:
    with tempfile.TemporaryFile() as file:
        mark = Mark(file.fileno())
        for task in tasks:
            try:
                answer = function(task, mark)
            except Exception as error:  # noqa: BLE001 - told as a worker would
                answer = trouble_of(error)
            yield task, answer


class _Pool:
    def __init__(self, tasks: Sequence[Any], function: Work, inherit: Sequence[int]) -> None:
        self.function, self.inherit = function, tuple(inherit)
        self.todo: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._stopped = False
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        for task in tasks:
            self.todo.put(task)

    def stop(self) -> None:
        """Kill what runs; threads that wait for it end."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.kill()

    def serve(self) -> None:
        """Feed one worker, and its successors."""
        try:
            with tempfile.TemporaryFile() as file:
                self._serve(Mark(file.fileno()))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self.done.put(error)

    def _serve(self, mark: Mark) -> None:
        with contextlib.ExitStack() as stack:
            process: subprocess.Popen[bytes] | None = None
            while not self._stopped:
                try:
                    task = self.todo.get_nowait()
                except queue.Empty:
                    return
                current, deaths, answer = task, list[int](), None
                while answer is None and not self._stopped:
                    process = process or stack.enter_context(self._started(mark.fd))
                    mark.set(-1)
                    answer = self._ask(process, current)
                    if answer is None:
                        status = process.wait()
                        process = None
                        at = mark.get()
                        if at >= 0 and at in deaths:
                            current = current.without(at)
                        deaths.append(at)
                        if len(deaths) > _MOST_DEATHS or deaths.count(-1) > 1 or deaths.count(at) > 2:
                            answer = _blamed(status, len(deaths), at)
                if answer is not None:
                    self.done.put((task, answer))

    def _ask(self, process: "subprocess.Popen[bytes]", task: Any) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            send(process.stdin, (self.function, task))
            return receive(process.stdout)
        except (OSError, EOFError):
            return None

    @contextlib.contextmanager
    def _started(self, mark: int) -> "Iterator[subprocess.Popen[bytes]]":
        command = [sys.executable, "-c", f"from wdsflow.filtering.worker import serve; serve({mark})"]
        root = str(Path(sys.modules["wdsflow"].__path__[0]).resolve().parent)
        path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            pass_fds=(mark, *self.inherit),
            start_new_session=True,  # Ctrl-C is for the process that asked; workers end with it
        )
        try:
            with self._lock:
                self._running.add(process)
                if self._stopped:
                    process.kill()
            yield process
        finally:
            with self._lock:
                self._running.discard(process)
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()


def _blamed(status: int, times: int, sample: int) -> Trouble:
    where = f" at sample {sample}" if sample >= 0 else ""
    return Trouble(f"the process that worked on this shard died {times} times{where} (exit status {status})", 0, "")
