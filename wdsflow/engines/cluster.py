"""A connection to a Ray cluster.

Ray installs signal handlers, starts threads and sets variables of the environment. A program that
forks afterwards passes them to its children, which may then hang. So Ray runs in a separate
process, the driver, which connects to the cluster and runs an engine there for the program. A
program that is connected to Ray already, by itself or as a task or actor of Ray, uses that
connection.
"""

import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO, Any, NoReturn

from wdsflow.engines.base import Engine, EngineError
from wdsflow.engines.exit_status import describe_exit
from wdsflow.engines.messages import receive, send, take_line, when_closed
from wdsflow.engines.peer import Peer
from wdsflow.text.install import install_extras

# From the module ray to an engine; picklable.
MakeEngine = Callable[[Any], Engine[Any]]
# Starts an engine; the engine before has to be closed.
Cluster = Callable[[MakeEngine], Engine[Any]]

# Seconds that the driver has to leave the cluster.
_PATIENCE = 30.0
# Seconds for an answer from an address.
_CONNECTS = 10.0
_SETTINGS = {
    # The default of Ray 3; without, it warns.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # A new cluster would report itself to its makers.
    "RAY_USAGE_STATS_ENABLED": "0",
}


@contextlib.contextmanager
def connect_to_cluster(address: str | None = None) -> Iterator[Cluster]:
    """Connect to the cluster at an address.

    None takes ``RAY_ADDRESS``, the cluster of this machine, or a new one.

    Where this program is connected to Ray already, that connection is used, and the address
    ignored. Raises EngineError.
    """
    ray = sys.modules.get("ray")
    if getattr(ray, "is_initialized", bool)():
        yield lambda make: make(ray)
        return
    driver = _Driver()
    try:
        driver.ask("connect", (sys.argv or [""])[0], address)
        yield lambda make: _DriverEngine(driver, make)
        driver.ask("leave")
    finally:
        driver.close()


class _DriverEngine(Engine[Any]):
    """An engine in the driver: each method asks for that of the same name there."""

    def __init__(self, driver: "_Driver", make: MakeEngine) -> None:
        self._driver = driver
        driver.ask("start", make)

    @property
    def most_under_way(self) -> int:
        return int(self._driver.ask("most_under_way"))

    def submit(self, task: Any) -> None:
        self._driver.ask("submit", task)

    def next(self) -> tuple[Any, Any]:
        result: tuple[Any, Any] = self._driver.ask("next")
        return result

    def close(self) -> None:
        """Stop tasks under way; an interrupted driver does so when its connection ends."""
        if not self._driver.interrupted:
            self._driver.ask("close")


class _Driver:
    """The process in which Ray runs. It answers one request after another."""

    def __init__(self) -> None:
        # During a request: no other can be made.
        self.interrupted = False
        self._peer = Peer("from wdsflow.engines.cluster import serve; serve()", kept=False)

    def ask(self, request: str, *arguments: Any) -> Any:
        """Make a request, and return its answer or raise its error.

        Raises EngineError if the driver ended.
        """
        self.interrupted = True
        try:
            raised, answer = self._peer.ask((request, arguments))
        except (OSError, EOFError):
            fault = "does not answer"
            if self._peer.ends_within(_PATIENCE):
                fault = describe_exit(self._peer.wait())
            raise EngineError(f"the process that works with the Ray cluster {fault}") from None
        self.interrupted = False
        if raised:
            raise answer
        return answer

    def close(self) -> None:
        """End the driver.

        A driver that was interrupted first stops tasks under way and leaves the cluster.
        """
        self._peer.line.close()
        try:
            self._peer.ends_within(_PATIENCE)
        finally:
            self._peer.close()


def serve() -> None:
    """In the driver: answer requests until the program leaves or ends."""
    # Gives up a request; may be ignored in background jobs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    line = take_line()
    with open(os.devnull, "wb") as nothing:
        # Ray prints the logs of lost nodes there, and has no setting for it.
        os.dup2(nothing.fileno(), 1)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(KeyboardInterrupt):
            # Inside the block: if the program has ended already, SIGINT comes at once.
            when_closed(line, _interrupt_or_exit)
            _answer_all(line, stack)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        send(line, (False, None))


def _answer_all(line: IO[bytes], stack: contextlib.ExitStack) -> None:
    """Answer requests until one is to leave.

    ``stack`` gets what the requests open. Raises KeyboardInterrupt if the program ends.
    """
    ray: Any = None
    engine: Any = None
    while True:
        try:
            request, arguments = receive(line)
        except EOFError:
            _await_interrupt()
        if request == "leave":
            return
        raised, answer = False, None
        try:
            if request == "connect":
                ray = stack.enter_context(_connect_ray(*arguments))
            elif request == "start":
                engine = arguments[0](ray)
                stack.callback(engine.close)
            elif request == "most_under_way":
                answer = engine.most_under_way
            else:
                answer = getattr(engine, request)(*arguments)
        except Exception as error:  # noqa: BLE001 - raised in the program
            raised, answer = True, error
        try:
            send(line, (raised, answer))
        except OSError:
            _await_interrupt()


def _interrupt_or_exit() -> None:
    """Interrupt the main thread, which then stops tasks under way.

    End at once if that takes too long.
    """
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(_PATIENCE)
    os._exit(1)


def _await_interrupt() -> NoReturn:
    while True:
        signal.pause()


@contextlib.contextmanager
def _connect_ray(script: str, address: str | None) -> Iterator[Any]:
    """Connect as the program ``script`` would, and yield the module ray. Raises EngineError."""
    # Modules next to it are found on the nodes, too.
    sys.argv[:1] = [script]
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise EngineError(f"the engine ray needs Ray: {install_extras('ray')}") from None
    _check_reachable(address or os.environ.get("RAY_ADDRESS", ""))
    try:
        ray.init(
            address=address,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        # A lost connection is an OSError.
        raise EngineError(f"no Ray cluster{f' at {address}' if address else ''}: {error}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raise EngineError for an address without a server: Ray would wait for many minutes."""
    host, _, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    if not port.isdigit():
        # "auto", "local" and such.
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECTS).close()
    except OSError as error:
        raise EngineError(f"no Ray cluster at {address}: {error.strerror or error}") from None
