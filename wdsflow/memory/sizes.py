"""Sizes in words and numbers, and a budget of bytes that tasks share."""

import mmap
import os
import re
import sys
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

_DECIMAL = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "pb": 10**15}
_BINARY = {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40, "pib": 1 << 50}
_UNITS = _DECIMAL | _BINARY
_FORM = re.compile(r"\s*(\d+(?:_\d+)*(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE | re.ASCII)

# This part of the budget is taken without a request.
_SMALL = 8
# Seconds between two attempts.
_POLL = 0.003


def parse_size(text: str | int) -> int:
    """Return bytes: "2GiB" is 2 * 1024**3, "1.5 GB" is 1,500,000,000; a number without unit is bytes.

    Upper and lower case are the same. A fraction of a byte is cut off. Raises ValueError for other
    text, also "2G", which has two meanings.

    >>> parse_size("2GiB"), parse_size("1.5GB"), parse_size("300_000"), parse_size(7)
    (2147483648, 1500000000, 300000, 7)
    """
    if isinstance(text, int) and not isinstance(text, bool):
        if text < 0:
            raise ValueError(f"a size cannot be negative: {text}")
        return text
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if not found:
        raise ValueError(
            f"{text!r} is not a size; write a number and a unit, such as '512MiB' or '1.5GB'"
        )
    number, unit = found[1].replace("_", ""), found[2].lower()
    if unit in {"k", "m", "g", "t", "p"}:
        letter = unit.upper()
        raise ValueError(
            f"{text!r} has two meanings; write '{number}{letter}iB' (1024) or '{number}{letter}B' (1000)"
        )
    if unit and unit not in _UNITS:
        raise ValueError(
            f"{text!r}: no such unit as {found[2]!r}; there are B, KB, MB, GB, TB, KiB, MiB, GiB, TiB"
        )
    if not unit and "." in number:
        raise ValueError(
            f"{text!r} has no unit; write it as '{number}GiB' or '{number}GB', or whole bytes"
        )
    return int(Decimal(number) * _UNITS[unit or "b"])


def format_size(size: int) -> str:
    """Return a size for messages, in binary units with at most one digit after the point.

    >>> format_size(2147483648), format_size(1500), format_size(999)
    ('2 GiB', '1.5 KiB', '999 B')
    """
    if size < 0:
        return f"-{format_size(-size)}"
    if size < 1024:
        return f"{size} B"
    names = ["KiB", "MiB", "GiB", "TiB", "PiB"]
    for index, name in enumerate(names):
        tenths = round(size * 10 / (1 << 10 * (index + 1)))
        if tenths < 10240 or name == names[-1]:
            break
    return f"{tenths // 10} {name}" if tenths % 10 == 0 else f"{tenths / 10} {name}"


def weigh(value: Any) -> int:
    """Return about how many bytes a sample or a value in it takes: bytes, text, arrays, tensors, images, containers.

    The content counts, with a small overhead. Other values count by Python's ``sys.getsizeof``.

    >>> weigh({"jpg": bytes(1000)}) >= 1000
    True
    """
    total, heap, seen = 0, [value], set[int]()
    while heap:
        item = heap.pop()
        itself = sys.getsizeof(item, 64)
        # An array that owns its data has it in its size already; a view and a tensor have not.
        total += max(itself, 64 + _content(item))
        if not isinstance(item, (dict, list, tuple, set, frozenset)):
            continue
        # A container that holds itself.
        if id(item) in seen:
            continue
        seen.add(id(item))
        heap.extend(item.values() if isinstance(item, dict) else item)
    return total


def _content(item: Any) -> int:
    if isinstance(
        item, (bytes, bytearray, str, int, float, dict, list, tuple, set, frozenset, type(None))
    ):
        return 0
    # numpy, torch, memoryview.
    size = getattr(item, "nbytes", None)
    if isinstance(size, int):
        return size
    shape, bands = getattr(item, "size", None), getattr(item, "getbands", None)
    # Pillow, which keeps RGB in 4 bytes a pixel.
    if callable(bands) and isinstance(shape, tuple) and len(shape) == 2:
        return (
            int(shape[0])
            * int(shape[1])
            * (1 if len(bands()) == 1 and item.mode not in {"I", "F"} else 4)
        )
    return 0


class Budget:
    """Bytes that may be in use at once; further requests wait, in their order.

    A request beyond the whole budget waits until it is alone, then gets all.
    """

    def __init__(self, total: int) -> None:
        # Bytes.
        self.total = total
        # Bytes in use, now and at most.
        self.used = self.most = 0
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Hold ``size`` bytes while the block runs; waits until they are free."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                # First come, first served: otherwise small requests could block a large one
                # forever.
                self._changed.wait_for(
                    lambda: (
                        self._waiting[0] is ticket
                        and (not self.used or self.used + size <= self.total)
                    )
                )
            finally:
                self._waiting.remove(ticket)
            self.used += size
            self.most = max(self.most, self.used)
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self.used -= size
                self._changed.notify_all()


# Memory that forked processes share: files without a name, which disappear with their last user.
#
# Never ``/dev/shm``: containers often have 64 MiB there, and semaphores of multiprocessing are
# files there too.


def nameless_file(size: int) -> int:
    """Return the descriptor of a file of ``size`` zero bytes, in memory if the system can, otherwise in a temporary folder.

    It takes memory, or room on the disk, only where something is written.
    """
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("wdsflow")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return fd


def shared_memory(size: int) -> mmap.mmap:
    """Return ``size`` bytes that this process and those forked from it share."""
    fd = nameless_file(size)
    try:
        return mmap.mmap(fd, size)
    finally:
        os.close(fd)


class SharedBudget:
    """Bytes that ``processes`` may have in use at once; further requests wait.

    A request beyond the whole budget waits until it is alone, then gets all. Small requests are not
    counted: an eighth of the budget is reserved for them. For forked children. The lock is the
    kernel's, on a file: a killed process releases it.
    """

    def __init__(self, total: int, processes: int) -> None:
        # Bytes.
        self.total = total
        self._small = total // _SMALL // max(1, processes)
        self._most = total - self._small * processes
        self._fd = nameless_file(mmap.PAGESIZE)
        # In use; the largest that waits.
        self._state = memoryview(mmap.mmap(self._fd, mmap.PAGESIZE)).cast("q")
        weakref.finalize(self, os.close, self._fd)

    def clear(self) -> None:
        """Forget the bytes of killed processes. No process may hold or wait now."""
        self._state[0] = self._state[1] = 0

    @property
    def used(self) -> int:
        """Bytes in use now, without small requests."""
        return self._state[0]

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Hold ``size`` bytes while the block runs; waits until they are free. For one thread of each process."""
        if size <= self._small:
            yield
            return
        while not self._take(size):
            time.sleep(_POLL)
        try:
            yield
        finally:
            with self._locked():
                self._state[0] -= size

    def _take(self, size: int) -> bool:
        with self._locked():
            used, waiting = self._state[0], self._state[1]
            # The largest goes first: smaller ones could otherwise block it forever.
            if used and (used + size > self._most or waiting > size):
                self._state[1] = max(waiting, size)
                return False
            if waiting <= size:
                self._state[1] = 0
            self._state[0] += size
            return True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        import fcntl

        fcntl.lockf(self._fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._fd, fcntl.LOCK_UN)
