"""Limits for silent servers, and messages about requests that take long.

The limit is ``WDSFLOW_REMOTE_TIMEOUT``, in seconds. It holds for connecting, and for each time in
which nothing comes from the server. A request as a whole may take any time, unless it sends a body:
see ``sending_limit``.
"""

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from typing import TypeVar

from wdsflow.text.secrets import redact

from .base import SourceError

VARIABLE = "WDSFLOW_REMOTE_TIMEOUT"
# Seconds; a store that copies a large object sends a byte from time to time.
_USUAL = 60.0
# Bytes a second: a request that sends fewer is given up.
_SLOWEST = 100_000
# Seconds without a message about a request.
_QUIET = 5.0
# Bytes a second: the time for them is not waiting.
_QUICK = 5_000_000
# Seconds between two messages.
_AGAIN = 30.0
# Schemes of the file systems that get limits of their own, see ``limited_systems``.
_LIMITED = ("s3:", "s3a:", "http:", "https:", "hf:")
_log = logging.getLogger(__name__)
T = TypeVar("T")


def silence_limit() -> float:
    """Return how many seconds a server may be silent.

    Raises SourceError if ``WDSFLOW_REMOTE_TIMEOUT`` is not a valid number.
    """
    text = os.environ.get(VARIABLE, "")
    if not text:
        return _USUAL
    with suppress(ValueError):
        if 0 < (seconds := float(text)) < math.inf:
            return seconds
    raise SourceError(
        "refused",
        f"{VARIABLE} is {text!r}: it is how many seconds a server may be silent, such as 60",
    )


def sending_limit(size: int) -> float:
    """Return the seconds in which a request with a body of so many bytes has to be answered."""
    return 2 * silence_limit() + size / _SLOWEST


class AbandonedTimeoutError(TimeoutError):
    """A request took too long and continues in a thread: another one could disturb it."""


def call_within_limit(action: Callable[[], T], url: str, size: int = 0) -> T:
    """Return the result of a request; ``size``: bytes that it sends or gets.

    Most file systems of fsspec wait without end. Their request is made in a thread, which is left
    alone if it takes longer than the limit. Raises AbandonedTimeoutError, and what the action
    raises.
    """
    if url.startswith(_LIMITED):
        return action()
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(action())
        except BaseException as error:  # noqa: BLE001 - raised below, in the thread that waits
            result.set_exception(error)

    threading.Thread(target=run, name="wdsflow-request", daemon=True).start()
    if not wait([result], silence_limit() + size / _SLOWEST).done:
        raise AbandonedTimeoutError
    return result.result()


class _UnansweredRequests:
    """The unanswered requests of this process, and a thread that reports slow ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._never = threading.Event()
        # When it is late, its url, when it began.
        self._requests: dict[int, tuple[float, str, float]] = {}
        self._next = 0
        self._reported = -math.inf
        self._thread: threading.Thread | None = None

    def add(self, url: str, size: int) -> int:
        """Add a request, and return its number."""
        now = time.monotonic()
        with self._lock:
            self._next += 1
            self._requests[self._next] = now + _QUIET + size / _QUICK, url, now
            if self._thread is None:
                thread = threading.Thread(target=self._watch, name="wdsflow-waiting", daemon=True)
                # The interpreter ends.
                with suppress(RuntimeError):
                    thread.start()
                    self._thread = thread
            return self._next

    def remove(self, number: int) -> None:
        """Forget a request that was answered."""
        with self._lock:
            self._requests.pop(number, None)

    def forget(self) -> None:
        """Forget all of them, in a process that was forked: its parent waits for them."""
        # A thread of the parent may hold the other one.
        self._lock = threading.Lock()
        self._requests, self._thread = {}, None

    def _watch(self) -> None:
        while True:
            self._never.wait(min(1.0, _QUIET / 2))
            now = time.monotonic()
            with self._lock:
                late = min(self._requests.values(), default=None)
                if late is None and now - self._reported > _AGAIN:
                    self._thread = None
                    return
                if late is None or late[0] > now or now - self._reported < _AGAIN:
                    continue
                self._reported = now
            _log.warning(
                "wdsflow: waiting for %s: no answer for %.0f s (limit: %g s of silence, %s)",
                redact(late[1]),
                now - late[2],
                silence_limit(),
                VARIABLE,
            )


_waiting = _UnansweredRequests()
os.register_at_fork(after_in_child=_waiting.forget)


@contextmanager
def slow_request_reported(url: str, size: int = 0) -> Iterator[None]:
    """Report the request of the block on standard error if it takes long.

    ``size``: the bytes that it sends or receives.
    """
    number = _waiting.add(url, size)
    try:
        yield
    finally:
        _waiting.remove(number)


def is_silence(error: BaseException | None) -> bool:
    """Return whether a request failed because its server was silent for too long.

    It does not matter which library sent the request.
    """
    while error is not None:
        if any("Timeout" in kind.__name__ for kind in type(error).__mro__):
            return True
        # s3fs hides one by an error of its own.
        error = error.__cause__ or error.__context__
    return False
