"""The process of one device: takes requests from many, runs them one after the other."""

import contextlib
import os
import pickle
import queue
import select
import signal
import sys
import threading
from multiprocessing.connection import Connection, Listener
from typing import Any, NamedTuple

from wdsflow.memory.batching.environment import prepare_environment
from wdsflow.memory.batching.outcome import PoisonedError
from wdsflow.models.loaded import LoadedModels
from wdsflow.models.place import ModelError

LOST = 70  # exit status: the device is of no use to this process any more


class Setup(NamedTuple):
    """What a process is told when it starts."""

    address: str
    key: bytes
    device: str
    memory: str | None


class Ask(NamedTuple):
    """A request. ``what``: "prepare" with models, "map" with a model, its items and those to be run alone."""

    what: str
    arguments: tuple[Any, ...]


class _Waiting(NamedTuple):
    ask: Ask
    done: threading.Event
    answer: list[Any]


def serve() -> None:
    """Read a pickled ``Setup`` from stdin, then answer until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one decides
    setup: Setup = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
    prepare_environment()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(setup.address)  # of a process before this one
    listener = Listener(setup.address, "AF_UNIX", backlog=64, authkey=setup.key)
    asked: queue.SimpleQueue[_Waiting] = queue.SimpleQueue()
    threading.Thread(target=_watch, daemon=True).start()
    threading.Thread(target=_accept, args=(listener, asked), daemon=True).start()

    models = LoadedModels(setup.device, setup.memory)
    while True:
        waiting = asked.get()
        try:
            answer = getattr(models, waiting.ask.what)(*waiting.ask.arguments)
        except (ModelError, PoisonedError) as error:
            answer = error
        except Exception as error:  # noqa: BLE001 - told to whoever asked
            answer = ModelError(f"{type(error).__name__}: {error}")
        waiting.answer.append(answer)
        waiting.done.set()
        if isinstance(answer, PoisonedError):
            threading.Event().wait(1)  # the answer is on its way
            os._exit(LOST)


def _accept(listener: Listener, asked: "queue.SimpleQueue[_Waiting]") -> None:
    while True:
        with contextlib.suppress(OSError, EOFError):  # whoever came is gone, or is none of ours
            connection: Any = listener.accept()
            threading.Thread(target=_listen, args=(connection, asked), daemon=True).start()


def _listen(connection: Connection, asked: "queue.SimpleQueue[_Waiting]") -> None:
    """Take one request after another: nobody has more than one under way, so the queue is as long as they are many."""
    with contextlib.suppress(OSError, EOFError):
        while True:
            waiting = _Waiting(pickle.loads(connection.recv_bytes()), threading.Event(), [])  # noqa: S301 - the key proved it
            asked.put(waiting)
            waiting.done.wait()
            connection.send_bytes(pickle.dumps(waiting.answer[0], pickle.HIGHEST_PROTOCOL))


def _watch() -> None:
    """End when the process that started this one is gone."""
    poll = select.poll()
    poll.register(0, 0)
    while not any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll()):
        pass
    os._exit(1)
