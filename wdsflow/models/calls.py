"""Messages between workers and the process of a device: calls, and notices while they wait."""

import socket
import threading
from typing import Any, Literal, NamedTuple


class ServerSetup(NamedTuple):
    """The arguments of a process at its start."""

    address: str
    key: bytes
    device: str
    memory: str | None


class ModelCall(NamedTuple):
    """A request to the process of a device.

    "prepare" has models as arguments. "map" has a model, its items, and the positions of those that
    run alone.
    """

    method: Literal["prepare", "map"]
    arguments: tuple[Any, ...]


class Loading(NamedTuple):
    """Sent when a call waits for its model to load.

    If the process ends before ``Begun``, no item is the cause.
    """


class Begun(NamedTuple):
    """Sent when a call begins: if the process ends before the answer, the call may be the cause."""


class NotBegun(Exception):
    """The answer to a call that must be sent to the next process."""


class PendingCall(NamedTuple):
    """A call in the process of a device.

    Attributes:
        call: what is requested.
        connection: of the worker.
        done: set when there is an answer.
        answer: empty until then.
    """

    call: ModelCall
    connection: socket.socket
    done: threading.Event
    answer: list[Any]

    def finish(self, answer: Any) -> None:
        """Give the answer to the thread that sends it."""
        self.answer.append(answer)
        self.done.set()
