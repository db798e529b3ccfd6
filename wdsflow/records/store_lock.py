"""The lock of an output folder in an object store: an object that its run writes again every few seconds."""

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from wdsflow.shards.source.limits import reported, within_limit

_log = logging.getLogger(__name__)
# Seconds between two writes of the lock.
BEAT = 10.0
# Seconds without a write after which another run takes over.
STALE = 60.0
# Seconds until a lock that was taken over is read again: another run may have done so at the same
# time.
SETTLE = 1.0
# Tokens of the locks of this process.
_held: set[str] = set()


class Busy(Exception):
    """Another run works in the folder."""


class StoreLock:
    """Holds an object locked until ``close``. A run that was killed leaves it; the next one takes it over.

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
        self._system, self._key, self._folder, self._attempt = system, key, folder, attempt
        self._mine = {**this_process(), "token": os.urandom(8).hex()}
        # Of which few are allowed in an hour.
        commits = "hf" in system.protocol and not key.startswith("buckets/")
        self._beat_every, self._stale = (30 * BEAT, 30 * STALE) if commits else (BEAT, STALE)
        self._beats, self._written = 0, time.time()
        # The run that took over.
        self._other: dict[str, Any] | None = None
        self._one_at_a_time = threading.Lock()
        self._ended = threading.Event()
        self._take()
        _held.add(str(self._mine["token"]))
        self._thread = threading.Thread(target=self._beat_on, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise Busy if another run has taken over, because this one was stopped or had no network for a while."""
        if self._other is None and time.time() - self._written > self._stale / 2:
            self._attempt(self._beat)
        if self._other is not None:
            raise Busy(f"another run took over {self._folder} meanwhile: {who(self._other)}")

    def close(self, *, remove: bool = True) -> None:
        """Release the lock: remove the object, unless another run has taken over."""
        self._ended.set()
        _held.discard(str(self._mine["token"]))
        if not remove:
            return
        self._thread.join(BEAT)
        # Every file system raises its own errors; a lock that stays is taken over.
        with suppress(Exception), reported(self._folder):
            within_limit(self._remove, self._folder)

    def _remove(self) -> None:
        if self._is_mine(self._read()):
            self._system.rm_file(self._key)

    def _take(self) -> None:
        first, since = None, time.monotonic()
        while True:
            if (found := self._attempt(self._read)) is None:
                self._attempt(self._create)
                found = self._attempt(self._read)
            elif _is_over(found) or (found == first and time.monotonic() - since >= self._stale):
                self._attempt(self._write)
                time.sleep(SETTLE)
                found = self._attempt(self._read)
            if self._is_mine(found):
                return
            if found is not None and (
                first not in (None, found) or (is_here(found) and not _is_over(found))
            ):
                raise Busy(
                    f"another run works in {self._folder} ({who(found)}); wait for it or stop it"
                )
            if found != first:
                first, since = found, time.monotonic()
                if found is not None:
                    _log.warning(
                        "wdsflow: %s: waiting up to %.0f s, as %s may still run",
                        self._folder,
                        self._stale,
                        who(found),
                    )
            time.sleep(min(1.0, self._stale / 8))

    def _is_mine(self, found: dict[str, Any] | None) -> bool:
        return found is not None and found.get("token") == self._mine["token"]

    def _create(self) -> None:
        # Another run was faster, or the answer to an earlier try was lost.
        with suppress(FileExistsError):
            try:
                self._system.pipe_file(self._key, self._data(), mode="create")
            except (TypeError, NotImplementedError):
                # No such condition there.
                self._write()

    def _write(self) -> None:
        self._system.pipe_file(self._key, self._data())
        self._written = time.time()

    def _data(self) -> bytes:
        return json.dumps({**self._mine, "beat": self._beats}).encode() + b"\n"

    def _read(self) -> dict[str, Any] | None:
        return _content(self._system, self._key)

    def _beat(self) -> None:
        with self._one_at_a_time:
            found = self._read()
            if found is not None and not self._is_mine(found):
                self._other = found
            else:
                self._beats += 1
                self._write()

    def _beat_on(self) -> None:
        while not self._ended.wait(self._beat_every) and self._other is None:
            # The next beat, or the next upload, tries again.
            with suppress(Exception):
                self._beat()


def _content(system: Any, key: str) -> dict[str, Any] | None:
    try:
        found = json.loads(system.cat_file(key))
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def look_at_lock(system: Any, key: str) -> dict[str, Any] | None:
    """Return who holds a lock, None if nobody does; ``age``: seconds since its last beat, by the clock of this machine."""
    found = _content(system, key)
    if found is None:
        return None
    # Not every file system knows when an object was written.
    with suppress(Exception):
        found["age"] = time.time() - system.modified(key).timestamp()
    return found


def this_process() -> dict[str, object]:
    """Return what tells this process from all others: host, number, boot and start time, and since when it works."""
    found = {"host": socket.gethostname(), "pid": os.getpid(), "process": _process(os.getpid())}
    return {**found, "since": time.strftime("%Y-%m-%d %H:%M:%S %z")}


def who(found: Mapping[str, Any]) -> str:
    """Return which process ``this_process`` described."""
    return f"process {found.get('pid')} on {found.get('host')}, since {found.get('since')}"


def is_here(found: Mapping[str, Any]) -> bool:
    """Return whether the process of a lock would be visible here: same host, same boot, same namespace of processes."""
    here, there = _process(os.getpid()), found.get("process")
    if not isinstance(there, str) or found.get("host") != socket.gethostname():
        return False
    return bool(here) and here.split()[:2] == there.split()[:2]


def _is_over(found: dict[str, Any]) -> bool:
    """Return whether a lock is of a process of this machine that has ended, or of this one, which has released it."""
    released = found.get("pid") == os.getpid() and found.get("token") not in _held
    return is_here(found) and (released or not is_alive(found))


def is_alive(found: Mapping[str, Any]) -> bool:
    """Return whether a process of this machine still exists, by what ``this_process`` returned there."""
    return _process(found.get("pid")) == found.get("process")


def _process(pid: object) -> str:
    """Return the boot, the namespace and the start time of a process; "" if it has ended, or this is unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        state, *others = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        )
        return "" if state in "ZX" else f"{boot} {os.readlink('/proc/self/ns/pid')} {others[18]}"
    except (OSError, IndexError):
        return ""
