"""The process of one device: it runs the requests of all workers, one after the other."""

import contextlib
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

from wdsflow.engines.peer import receive, send, take_line, when_gone
from wdsflow.memory.batching.attempt import Failure, PoisonedError
from wdsflow.memory.batching.device import prepare_environment

from .loaded import LoadedModels, ModelError

_HELD = 2  # requests: one runs, one is ready
LOST = 70  # exit status: this process can no longer use its device


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


def serve() -> None:
    """Receive a ``ServerSetup`` from the parent process, then answer requests until that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one decides
    line = take_line(prints=True)
    setup: ServerSetup = receive(line)
    prepare_environment()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(setup.address)  # of a process before this one
    listener = Listener(setup.address, "AF_UNIX", backlog=64, authkey=setup.key)
    asked: queue.SimpleQueue[_Waiting] = queue.SimpleQueue()
    when_gone(line, partial(_end, setup.address))
    threading.Thread(target=_accept, args=(listener, asked), daemon=True).start()

    models, worked = LoadedModels(setup.device, setup.memory), False
    while True:
        waiting = asked.get()
        try:
            if waiting.ask.what == "map" and not models.has(waiting.ask.arguments[0]):  # this process replaces another
                _send(waiting, Loading())
                models.make_ready(waiting.ask.arguments[0])
            _send(waiting, Begun())
            answer = getattr(models, waiting.ask.what)(*waiting.ask.arguments)
        except (ModelError, PoisonedError) as error:
            answer = error
        except Exception as error:  # noqa: BLE001 - sent as the answer
            answer = ModelError(f"{type(error).__name__}: {error}")
        if isinstance(answer, PoisonedError):
            with contextlib.suppress(OSError):  # later requests go to the next process
                os.unlink(setup.address)
        elif not worked and isinstance(answer, list) and not all(isinstance(each, Failure) for each in answer):
            worked = True
            with contextlib.suppress(OSError):
                worked_mark(setup.address).touch()
        waiting.answer.append(answer)
        waiting.done.set()
        if isinstance(answer, PoisonedError):
            _refuse(asked)
            os._exit(LOST)
        del waiting, answer  # otherwise they stay in memory until the next request


def _send(waiting: _Waiting, what: Loading | Begun) -> None:
    with contextlib.suppress(OSError):  # the worker may have ended
        send(waiting.asking, what)


def _refuse(asked: "queue.SimpleQueue[_Waiting]") -> None:
    """Return waiting requests while the answer is sent: they have not begun, so they are not the cause."""
    end = time.monotonic() + 1
    with contextlib.suppress(queue.Empty):
        while True:
            waiting = asked.get(timeout=max(0.0, end - time.monotonic()))
            waiting.answer.append(NotBegun())
            waiting.done.set()


def _accept(listener: Listener, asked: "queue.SimpleQueue[_Waiting]") -> None:
    room = threading.Semaphore(_HELD)
    while True:
        with contextlib.suppress(
            OSError, EOFError, AuthenticationError
        ):  # it has ended, or is not a worker of this run
            with listener.accept() as connection:
                asking = socket.socket(fileno=os.dup(connection.fileno()))
            try:
                threading.Thread(target=_listen, args=(asking, asked, room), daemon=True).start()
            except (RuntimeError, MemoryError):  # no memory for a thread: workers connect again
                asking.close()


def _listen(asking: socket.socket, asked: "queue.SimpleQueue[_Waiting]", room: threading.Semaphore) -> None:
    """Receive requests; while enough of them are held, further ones stay with their workers."""
    with asking, contextlib.suppress(OSError, EOFError):
        while select.select([asking], [], []):
            with room:
                try:
                    ask = receive(asking)
                except (ImportError, AttributeError) as error:
                    text = f"the process that runs models cannot import what it is asked for: {error}"
                    send(asking, ModelError(text))
                    continue
                waiting = _Waiting(ask, asking, threading.Event(), [])
                asked.put(waiting)
                waiting.done.wait()
            try:
                send(asking, waiting.answer[0])
            except (TypeError, AttributeError, pickle.PicklingError) as error:
                send(asking, ModelError(f"the outputs of a model cannot be sent: {error}"))
            del waiting, ask  # otherwise its items stay in memory until the next request


def _end(address: str) -> None:
    """End because the parent process has ended."""
    with contextlib.suppress(OSError):  # a killed parent could not
        for mark in (worked_mark(address), ended_mark(address)):
            mark.unlink(missing_ok=True)
        os.unlink(address)
        os.rmdir(os.path.dirname(address))
    os._exit(1)
