"""A Ray cluster, as a program reaches it.

Ray installs signal handlers, starts threads and sets variables of the environment. A program that forks afterwards
hands them to its children, which then may never end. So Ray runs in a process of its own, the driver, and this
program stays as it was. Only where the program is connected to Ray already, by itself or as a task or actor of Ray,
is that connection used.
"""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from wdsflow.engines.base import Engine, EngineError
from wdsflow.engines.child_process import receive, send, start_python
from wdsflow.text.words import signal_name

Make = Callable[[Any], Engine[Any]]  # from the module ray to an engine; picklable
Cluster = Callable[[Make], Engine[Any]]  # starts an engine; the engine before has to be closed

_PATIENCE = 30.0  # seconds that the driver has to leave the cluster


@contextlib.contextmanager
def connected(address: str | None = None) -> Iterator[Cluster]:
    """Connect to the cluster at an address; None takes ``RAY_ADDRESS``, that of this machine, or a new one.

    Where this program is connected to Ray already, that connection is used, whatever the address. Raises EngineError.
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

    def __init__(self, driver: "_Driver", make: Make) -> None:
        self._driver = driver
        driver.ask("start", make)

    @property
    def width(self) -> int:
        """How many tasks are worth having under way."""
        return int(self._driver.ask("width"))

    def submit(self, task: Any) -> None:
        """Take a task."""
        self._driver.ask("submit", task)

    def next(self) -> tuple[Any, Any]:
        """Wait for an answer. Raises EngineError."""
        found: tuple[Any, Any] = self._driver.ask("next")
        return found

    def close(self) -> None:
        """Stop what is under way; a driver that was interrupted does so when its connection ends."""
        if not self._driver.interrupted:
            self._driver.ask("close")


class _Driver:
    """The process in which Ray runs. It answers one request after another."""

    def __init__(self) -> None:
        self.interrupted = False  # in the midst of a request: no other can be made
        self._process = start_python(
            "from wdsflow.engines.ray_driver import serve; serve()", stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self, what: str, *arguments: Any) -> Any:
        """Make a request; return its answer, or raise what it raised. Raises EngineError if the driver ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.interrupted = True
        try:
            send(self._process.stdin, (what, arguments))
            raised, answer = receive(self._process.stdout)
        except (OSError, EOFError):
            raise EngineError(f"the process that works with the Ray cluster {self._ending()}") from None
        self.interrupted = False
        if raised:
            raise answer
        return answer

    def close(self) -> None:
        """End the driver; if it was interrupted, it stops what is under way and leaves the cluster first."""
        process = self._process
        try:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE)
        finally:
            process.kill()
            process.wait()

    def _ending(self) -> str:
        try:
            status = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return "does not answer"
        return f"was killed by {signal_name(-status)}" if status < 0 else f"ended with status {status}"
