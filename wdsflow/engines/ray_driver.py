"""The process in which Ray runs: connects to a cluster, and works with an engine there for the program that asks."""

import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from typing import IO, Any, NoReturn

from wdsflow.engines.base import Engine, EngineError
from wdsflow.engines.child_process import own_pipes, receive, send, when_gone
from wdsflow.text.install import install_extras

_PATIENCE = 10.0  # seconds for an answer from an address
_FAREWELL = 30.0  # seconds to leave a cluster when the program that asks is gone
_SETTINGS = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # what Ray 3 does; without, it warns
    "RAY_USAGE_STATS_ENABLED": "0",  # a new cluster would report itself to its makers
}


def serve() -> None:
    """Answer requests that come over stdin until the program leaves or is gone."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # gives up a request; may be ignored in background jobs
    requests, answers = own_pipes()
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 1)  # Ray prints the logs of lost nodes there, and has no setting for it
    when_gone(requests.fileno(), _give_up)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(KeyboardInterrupt):
            _answer_all(requests, answers, stack)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        send(answers, (False, None))


def _answer_all(requests: IO[bytes], answers: IO[bytes], stack: contextlib.ExitStack) -> None:
    """Answer requests until one is to leave. Raises KeyboardInterrupt if the program is gone."""
    driver = _Driver(stack)
    while True:
        try:
            what, arguments = receive(requests)
        except EOFError:
            _await_interrupt()
        if what == "leave":
            return
        try:
            raised, answer = False, driver.answer(what, arguments)
        except Exception as error:  # noqa: BLE001 - raised in the program
            raised, answer = True, error
        try:
            send(answers, (raised, answer))
        except OSError:
            _await_interrupt()


class _Driver:
    """What the program asks for; what has to be given back goes to ``stack``."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._ray: Any = None
        self._engine: Engine[Any] | None = None

    def answer(self, what: str, arguments: tuple[Any, ...]) -> Any:
        """Connect, start an engine, or ask the engine."""
        if what == "connect":
            self._ray = self._stack.enter_context(_joined(*arguments))
        elif what == "start":
            self._engine = arguments[0](self._ray)
            self._stack.callback(self._engine.close)
        elif what == "width":
            assert self._engine is not None
            return self._engine.width
        else:
            return getattr(self._engine, what)(*arguments)
        return None


def _give_up() -> None:
    """Interrupt the main thread, which then stops what is under way; where that takes too long, end at once."""
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(_FAREWELL)
    os._exit(1)


def _await_interrupt() -> NoReturn:
    while True:
        signal.pause()


@contextlib.contextmanager
def _joined(script: str, address: str | None) -> Iterator[Any]:
    """Connect as the program ``script`` would, and yield the module ray. Raises EngineError."""
    sys.argv[:1] = [script]  # modules next to it are found on the nodes, too
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise EngineError(f"the engine ray needs Ray: {install_extras('ray')}") from None
    _must_answer(address or os.environ.get("RAY_ADDRESS", ""))
    try:
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (ImportError, OSError, RuntimeError, ValueError) as error:  # a lost connection is an OSError
        raise EngineError(f"no Ray cluster{f' at {address}' if address else ''}: {error}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _must_answer(address: str) -> None:
    """Refuse an address where nobody listens: Ray would wait for many minutes."""
    host, _, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    if not port.isdigit():
        return  # "auto", "local" and such
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except OSError as error:
        raise EngineError(f"no Ray cluster at {address}: {error.strerror or error}") from None
