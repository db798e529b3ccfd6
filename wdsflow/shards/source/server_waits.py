"""How long servers want no requests: followed by all threads of a process, and shared by processes.

The processes are those that share a folder.

A server that has too much to do answers with 429 or 503, and says when the next request may come.
If each of the processes of a machine learned that by a request of its own, the server would get as
many requests that it has to refuse.
"""

import logging
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

# Seconds from which on a wait is reported.
_LONG = 5.0
# The part of a wait that is added at random: otherwise all would ask at the same moment.
_SPREAD = 0.1
# Seconds that a wait may last: a file of another process cannot stop this one for good.
_LONGEST = 300.0
_log = logging.getLogger(__name__)


class ServerWaits:
    """When each server may be asked again. Thread-safe.

    Args:
        clock: returns the seconds since 1970.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._until: dict[str, float] = {}
        self._folder: Path | None = None
        self._lock = threading.Lock()

    def share(self, folder: Path) -> None:
        """Share the waits with all processes that use this folder from now on.

        Raises OSError if the folder cannot be created.
        """
        folder.mkdir(exist_ok=True)
        self._folder = folder

    def note(self, url: str, seconds: float) -> None:
        """Note that the server of a url wants no request for some seconds."""
        server = _server_of(url)
        until = self._clock() + min(seconds, _LONGEST)
        with self._lock:
            self._until[server] = max(until, self._until.get(server, 0.0))
        if self._folder is None:
            return
        # The time of the file is that of the next request. Another process may set it at the same
        # moment, to about the same time.
        path = self._folder / _name_of(server)
        with suppress(OSError):
            if self._stored(server) < until:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
                os.utime(path, (until, until))

    def wait(self, url: str) -> None:
        """Wait until the server of a url may be asked."""
        server = _server_of(url)
        until = max(self._until.get(server, 0.0), self._stored(server))
        seconds = min(until - self._clock(), _LONGEST)
        if seconds <= 0:
            return
        if seconds >= _LONG:
            _log.warning("wdsflow: %s wants no requests for %.0f s", server, seconds)
        self._sleep(seconds * (1 + _SPREAD * random.random()))

    def _stored(self, server: str) -> float:
        """Return the time in the folder; 0 if there is none."""
        if self._folder is None:
            return 0.0
        try:
            return os.stat(self._folder / _name_of(server)).st_mtime
        except OSError:
            return 0.0


def _server_of(url: str) -> str:
    """Return what names the server of a url, without user and password.

    >>> _server_of("https://***@host:80/a.tar"), _server_of("s3://bucket/a.tar"), _server_of("hf://datasets/org/set/a.tar")
    ('https://host:80', 's3://bucket', 'hf://')
    """
    scheme, _, rest = url.partition("://")
    # The hub counts the requests for all its sets together.
    host = "" if scheme == "hf" else rest.partition("/")[0].rpartition("@")[2]
    return f"{scheme}://{host}"


def _name_of(server: str) -> str:
    return blake2b(server.encode(errors="surrogatepass"), digest_size=8).hexdigest()


# Those of this process.
waits = ServerWaits()
