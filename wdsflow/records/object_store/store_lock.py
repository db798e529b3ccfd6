"""The lock of an output folder in an object store.

It is an object that its run writes again every few seconds.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from wdsflow.records.folder_lock import Busy
from wdsflow.records.process_identity import is_alive, is_visible_here, process_text, this_process
from wdsflow.shards.source.limits import call_within_limit, slow_request_reported

_log = logging.getLogger(__name__)
# Seconds between two writes of the lock.
BEAT = 10.0
# Seconds without a write after which another run takes over.
STALE = 60.0
# Seconds until a lock that was taken over is read again:
# another run may have done so at the same time.
TAKEOVER_WAIT = 1.0
# Where each write is a commit, of which few are allowed in
# an hour, both times are as many times as long.
_COMMIT_FACTOR = 30
# Tokens of the locks of this process.
_held: set[str] = set()


class StoreLock:
    """Holds an object locked until ``close``.

    A killed run leaves the lock; the next run takes it over.

    A run of this machine counts as ended if its process does not exist; any other one if its lock
    was not written for ``STALE`` seconds. They are measured here, so clocks of different machines
    do not matter. Where each write is a commit (``hf://datasets``) both times are 30 times as long.

    Args:
        system: the file system of fsspec.
        key: the object.
        folder: the url of the output folder, for messages.
        attempt: calls a function, again if a fault may pass; what it raises then is raised here.

    Raises:
        Busy: another run holds the lock.
    """

    def __init__(
        self, system: Any, key: str, folder: str, attempt: Callable[[Callable[[], Any]], Any]
    ) -> None:
        self._system = system
        self._key = key
        self._folder = folder
        self._attempt = attempt
        self._token = os.urandom(8).hex()
        self._process = this_process()
        is_committed = "hf" in system.protocol and not key.startswith("buckets/")
        factor = _COMMIT_FACTOR if is_committed else 1
        self._beat_every = factor * BEAT
        self._stale = factor * STALE
        self._beats = 0
        self._written = time.time()
        # The content of the lock after another run has taken over.
        self._successor: dict[str, Any] | None = None
        self._one_at_a_time = threading.Lock()
        self._closed = threading.Event()
        self._acquire()
        _held.add(self._token)
        self._thread = threading.Thread(target=self._beat_until_closed, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise Busy if another run has taken over the lock.

        This happens if this run was stopped, or had no network for a while.
        """
        if self._successor is None and time.time() - self._written > self._stale / 2:
            self._attempt(self._beat)
        if self._successor is not None:
            raise Busy(
                f"another run took over {self._folder} meanwhile: {process_text(self._successor)}"
            )

    def close(self, *, remove: bool = True) -> None:
        """Release the lock: remove the object, unless another run has taken over."""
        self._closed.set()
        _held.discard(self._token)
        if not remove:
            return
        self._thread.join(BEAT)
        # Every file system raises its own errors; a lock that stays is taken over.
        with suppress(Exception), slow_request_reported(self._folder):
            call_within_limit(self._remove, self._folder)

    def _acquire(self) -> None:
        """Write the lock when no other run holds it. Raises Busy."""
        seen: dict[str, Any] | None = None
        seen_since = time.monotonic()
        while True:
            content = self._attempt(self._read)
            is_stale = content == seen and time.monotonic() - seen_since >= self._stale
            if content is None:
                self._attempt(self._create)
                content = self._attempt(self._read)
            elif is_stale or _is_released(content):
                self._attempt(self._write)
                time.sleep(TAKEOVER_WAIT)
                content = self._attempt(self._read)
            if self._is_ours(content):
                return
            if content is not None:
                self._refuse_running(content, seen)
            if content != seen:
                seen = content
                seen_since = time.monotonic()
                if content is not None:
                    self._warn_of_wait(content)
            time.sleep(min(1.0, self._stale / 8))

    def _refuse_running(self, content: dict[str, Any], seen: dict[str, Any] | None) -> None:
        """Raise Busy if the run that holds the lock still works.

        It works if it has written the lock again, or its process exists.
        """
        is_written_again = seen is not None and content != seen
        if is_written_again or (is_visible_here(content) and not _is_released(content)):
            raise Busy(
                f"another run works in {self._folder} ({process_text(content)}); wait for it or stop it"
            )

    def _warn_of_wait(self, content: dict[str, Any]) -> None:
        _log.warning(
            "wdsflow: %s: waiting up to %.0f s, as %s may still run",
            self._folder,
            self._stale,
            process_text(content),
        )

    def _is_ours(self, content: dict[str, Any] | None) -> bool:
        return content is not None and content.get("token") == self._token

    def _create(self) -> None:
        # Another run was faster, or the answer to an earlier try was lost.
        with suppress(FileExistsError):
            try:
                self._system.pipe_file(self._key, self._data(), mode="create")
            except (TypeError, NotImplementedError):
                # This file system has no such condition.
                self._write()

    def _write(self) -> None:
        self._system.pipe_file(self._key, self._data())
        self._written = time.time()

    def _data(self) -> bytes:
        content = {**self._process, "token": self._token, "beat": self._beats}
        return json.dumps(content).encode() + b"\n"

    def _read(self) -> dict[str, Any] | None:
        return _read_content(self._system, self._key)

    def _remove(self) -> None:
        if self._is_ours(self._read()):
            self._system.rm_file(self._key)

    def _beat(self) -> None:
        """Write the lock again, unless another run has taken over."""
        with self._one_at_a_time:
            content = self._read()
            if content is not None and not self._is_ours(content):
                self._successor = content
                return
            self._beats += 1
            self._write()

    def _beat_until_closed(self) -> None:
        while not self._closed.wait(self._beat_every) and self._successor is None:
            # The next beat, or the next upload, tries again.
            with suppress(Exception):
                self._beat()


def read_lock_holder(system: Any, key: str) -> dict[str, Any] | None:
    """Return who holds a lock, None if nobody does.

    ``age``: seconds since its last beat, by the clock of this machine.
    """
    content = _read_content(system, key)
    if content is None:
        return None
    # Not every file system knows when an object was written.
    with suppress(Exception):
        content["age"] = time.time() - system.modified(key).timestamp()
    return content


def _read_content(system: Any, key: str) -> dict[str, Any] | None:
    """Return the content of a lock: None if it does not exist, empty if it is damaged."""
    try:
        content = json.loads(system.cat_file(key))
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _is_released(content: dict[str, Any]) -> bool:
    """Return whether a lock is of an ended process of this machine, or released by this one."""
    if not is_visible_here(content):
        return False
    if content.get("pid") == os.getpid() and content.get("token") not in _held:
        return True
    return not is_alive(content)
