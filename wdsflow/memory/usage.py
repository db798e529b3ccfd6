"""What a process and those it started take of the memory now, in bytes."""

import contextlib
import os
import resource
import sys
import time
from pathlib import Path

import psutil

_OLD = 1.0  # seconds
_LIKE = 1 << 20  # bytes
_PAGE = resource.getpagesize()
_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


def resident(pid: int) -> int:
    """Return the resident bytes of a process, 0 if it is gone. Pages shared with others count in full."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError):
        return _by_psutil(pid)


def held(pid: int) -> int:
    """Return the resident bytes of a process with shared pages divided among those who share them (PSS).

    The sum over processes is what they take together. Resident bytes where the system does not tell; 0 if the process
    is gone.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return resident(pid)


class HeldMemory:
    """``held``, measured again only after a second, or where resident bytes have changed by more than 1 MiB.

    To divide shared pages takes the system many milliseconds for a process that has PyTorch.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, int, int]] = {}  # of a process: when, resident bytes, held

    def __call__(self, pid: int) -> int:
        """Return what ``held`` returns."""
        now, bare = time.monotonic(), resident(pid)
        when, before, taken = self._known.get(pid, (-_OLD, 0, 0))
        if now - when >= _OLD or abs(bare - before) > _LIKE:
            taken = held(pid)
            self._known[pid] = now, bare, taken
        return taken


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []


def forget_peak() -> bool:
    """Reset ``peak`` for this process; False if the system cannot."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def peak() -> int:
    """Return the most resident bytes that this process had since ``forget_peak``, or since its start."""
    return _status(b"VmHWM:") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT


def private_data() -> int:
    """Return the bytes of this process that ``RLIMIT_DATA`` counts, 0 if the system does not tell."""
    return _status(b"VmData:")


def mapped_files() -> int:
    """Return the bytes of files that this process has mapped and read, 0 if the system does not tell."""
    return _status(b"RssFile:")


def _status(name: bytes) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{os.getpid()}/status").read_bytes().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0


def _by_psutil(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
