"""The process of one device: it runs the requests of all workers, one after the other."""

import contextlib
import math
import os
import pickle
import queue
import select
import signal
import socket
import threading
import time
from functools import partial
from multiprocessing import AuthenticationError
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any, NamedTuple

from wdsflow.engines.messages import receive, send, take_line, when_closed
from wdsflow.memory.batching.attempt import Failure, PoisonedError
from wdsflow.memory.batching.device import prepare_environment

from .loaded import LoadedModels, ModelError
from .model_costs import note_spent, where_of

# Requests: one runs, one is ready; on a GPU a third arrives meanwhile. There each takes up to 80
# MiB as it arrives and 128 MiB of pinned memory, 0.6 GiB together.
_HELD, _GPU_HELD = 2, 3
# Exit status: this process can no longer use its device.
LOST = 70


class ServerSetup(NamedTuple):
    """The arguments of a process at its start."""

    address: str
    key: bytes
    device: str
    memory: str | None


class Loading(NamedTuple):
    """Sent when a request waits for its model to load: if the process ends before ``Begun``, no item is the cause."""


class Begun(NamedTuple):
    """Sent when a request begins: if the process ends before the answer, the request may be the cause."""


class Ask(NamedTuple):
    """A request. ``what``: "prepare" with models, or "map" with a model, its items and those that run alone."""

    what: str
    arguments: tuple[Any, ...]


class NotBegun(Exception):
    """The answer to a request that must be sent to the next process."""


class _Waiting(NamedTuple):
    ask: Ask
    asking: socket.socket
    done: threading.Event
    answer: list[Any]


def worked_mark(address: str) -> Path:
    """Return the file that exists if the process has computed an output."""
    return Path(f"{address}.worked")


def ended_mark(address: str) -> Path:
    """Return the file that exists if no other process will be started."""
    return Path(f"{address}.ended")


def costs_mark(address: str) -> Path:
    """Return the file with what models took in the process: see ``model_costs``."""
    return Path(f"{address}.costs")


def load_of(address: str) -> float:
    """Return how many requests wait or run in the process at an address; infinity if none can be sent there now."""
    # It is being replaced, or it will not be.
    if not os.path.exists(address) or ended_mark(address).exists():
        return math.inf
    try:
        return int(_load_mark(address).read_bytes())
    except (OSError, ValueError):
        # It is starting.
        return 0.0


def _load_mark(address: str) -> Path:
    return Path(f"{address}.load")


class _Load:
    """A context of a request: the requests that wait or run are counted in a file, for ``load_of``."""

    def __init__(self, address: str) -> None:
        self._file = os.open(_load_mark(address), os.O_CREAT | os.O_RDWR | os.O_TRUNC)
        self._lock, self._count = threading.Lock(), 0

    def __enter__(self) -> None:
        self._add(1)

    def __exit__(self, *_: object) -> None:
        self._add(-1)

    def _add(self, more: int) -> None:
        with self._lock:
            self._count += more
            os.pwrite(self._file, b"%8d" % self._count, 0)


class _Desk(NamedTuple):
    """Shared by the threads that receive requests."""

    asked: "queue.SimpleQueue[_Waiting]"
    models: LoadedModels
    room: threading.Semaphore
    load: _Load


def serve() -> None:
    """Receive a ``ServerSetup`` from the parent process, then answer requests until that ends."""
    # The process that started this one decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = take_line(prints=True)
    setup: ServerSetup = receive(line)
    prepare_environment()
    with contextlib.suppress(FileNotFoundError):
        # Of a process before this one.
        os.unlink(setup.address)
    listener = Listener(setup.address, "AF_UNIX", backlog=64, authkey=setup.key)
    models, worked, where = LoadedModels(setup.device, setup.memory), False, ""
    asked: queue.SimpleQueue[_Waiting] = queue.SimpleQueue()
    room = threading.Semaphore(_GPU_HELD if setup.device.startswith("cuda") else _HELD)
    desk = _Desk(asked, models, room, _Load(setup.address))
    when_closed(line, partial(_end, setup.address))
    threading.Thread(target=_accept, args=(listener, desk), daemon=True).start()

    while True:
        waiting = asked.get()
        try:
            # This process replaces another.
            if waiting.ask.what == "map" and not models.has(waiting.ask.arguments[0]):
                _send(waiting, Loading())
                models.make_ready(waiting.ask.arguments[0])
            _send(waiting, Begun())
            answer = getattr(models, waiting.ask.what)(*waiting.ask.arguments)
        except (ModelError, PoisonedError) as error:
            answer = error
        except Exception as error:  # noqa: BLE001 - sent as the answer
            answer = ModelError(f"{type(error).__name__}: {error}")
        if isinstance(answer, PoisonedError):
            # Later requests go to the next process.
            with contextlib.suppress(OSError):
                os.unlink(setup.address)
        elif (
            not worked
            and isinstance(answer, list)
            and not all(isinstance(each, Failure) for each in answer)
        ):
            worked = True
            with contextlib.suppress(OSError):
                worked_mark(setup.address).touch()
        if waiting.ask.what == "map" and isinstance(answer, list):
            where = where or where_of(setup.device)
            with contextlib.suppress(OSError):
                note_spent(costs_mark(setup.address), where, models.spent)
        waiting.answer.append(answer)
        waiting.done.set()
        if isinstance(answer, PoisonedError):
            _refuse(asked)
            os._exit(LOST)
        # Otherwise they stay in memory until the next request.
        del waiting, answer


def _send(waiting: _Waiting, what: Loading | Begun) -> None:
    # The worker may have ended.
    with contextlib.suppress(OSError):
        send(waiting.asking, what)


def _refuse(asked: "queue.SimpleQueue[_Waiting]") -> None:
    """Return waiting requests while the answer is sent: they have not begun, so they are not the cause."""
    end = time.monotonic() + 1
    with contextlib.suppress(queue.Empty):
        while True:
            waiting = asked.get(timeout=max(0.0, end - time.monotonic()))
            waiting.answer.append(NotBegun())
            waiting.done.set()


def _accept(listener: Listener, desk: _Desk) -> None:
    while True:
        # It has ended, or is not a worker of this run.
        with contextlib.suppress(OSError, EOFError, AuthenticationError):
            with listener.accept() as connection:
                asking = socket.socket(fileno=os.dup(connection.fileno()))
            try:
                threading.Thread(target=_listen, args=(asking, desk), daemon=True).start()
            except (RuntimeError, MemoryError):
                # No memory for a thread: workers connect again.
                asking.close()


def _listen(asking: socket.socket, desk: _Desk) -> None:
    """Receive requests; while enough of them are held, further ones stay with their workers."""
    with asking, contextlib.suppress(OSError, EOFError):
        while select.select([asking], [], []):
            with desk.load, desk.room:
                try:
                    ask = _staged(receive(asking), desk.models)
                except (ImportError, AttributeError) as error:
                    text = (
                        f"the process that runs models cannot import what it is asked for: {error}"
                    )
                    send(asking, ModelError(text))
                    continue
                waiting = _Waiting(ask, asking, threading.Event(), [])
                desk.asked.put(waiting)
                waiting.done.wait()
            try:
                send(asking, waiting.answer[0])
            except (TypeError, AttributeError, pickle.PicklingError) as error:
                send(asking, ModelError(f"the outputs of a model cannot be sent: {error}"))
            # Otherwise its items stay in memory until the next request.
            del waiting, ask


def _staged(ask: Ask, models: LoadedModels) -> Ask:
    if ask.what != "map":
        return ask
    model, items, alone = ask.arguments
    return Ask("map", (model, models.staged(model, items), alone))


def _end(address: str) -> None:
    """End because the parent process has ended."""
    # A killed parent could not.
    with contextlib.suppress(OSError):
        for mark in (
            worked_mark(address),
            ended_mark(address),
            _load_mark(address),
            costs_mark(address),
        ):
            mark.unlink(missing_ok=True)
        os.unlink(address)
        os.rmdir(os.path.dirname(address))
    os._exit(1)
