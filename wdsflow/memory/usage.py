"""Memory that processes take."""

import contextlib
import resource
import sys
import time
from pathlib import Path

import psutil

# Seconds after which memory is measured again, and bytes of a change after which it is.
_OLD = 1.0
_CHANGED = 1 << 20
_PAGE = resource.getpagesize()
_STATUS = Path("/proc/self/status")
# Of ru_maxrss.
_UNIT = 1 if sys.platform == "darwin" else 1024


def resident_bytes(pid: int) -> int:
    """Return the resident bytes of a process, 0 if it has ended.

    Pages shared with other processes count in full.
    """
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError):
        return memory_by_psutil(pid)


def pss_bytes(pid: int) -> int:
    """Return the proportional set size (PSS) of a process in bytes.

    Shared pages are divided among the processes that share them.

    The sum over processes is their total. Resident bytes if the system does not report it; 0 if the
    process has ended.
    """
    return number_after(Path(f"/proc/{pid}/smaps_rollup"), b"Pss:") * 1024 or resident_bytes(pid)


class CachedPss:
    """``pss_bytes``, cached for a second, or until resident bytes change by more than 1 MiB.

    Dividing shared pages takes the system many milliseconds for a process with PyTorch.
    """

    def __init__(self) -> None:
        # Of a process: the time, resident bytes, and the result.
        self._measured: dict[int, tuple[float, int, int]] = {}

    def __call__(self, pid: int) -> int:
        """Return the result of ``pss_bytes``."""
        now = time.monotonic()
        resident_now = resident_bytes(pid)
        measured_at, resident_before, size = self._measured.get(pid, (-_OLD, 0, 0))
        is_old = now - measured_at >= _OLD
        if is_old or abs(resident_now - resident_before) > _CHANGED:
            size = pss_bytes(pid)
            self._measured[pid] = now, resident_now, size
        return size


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and their descendants."""
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []


def reset_peak() -> bool:
    """Reset ``peak_resident_bytes`` for this process; False if the system cannot."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def peak_resident_bytes() -> int:
    """Return the peak resident bytes of this process since ``reset_peak`` or its start."""
    size = number_after(_STATUS, b"VmHWM:") * 1024
    return size or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT


def private_data_bytes() -> int:
    """Return the bytes of this process that ``RLIMIT_DATA`` counts.

    0 if the system does not report them.
    """
    return number_after(_STATUS, b"VmData:") * 1024


def mapped_file_bytes() -> int:
    """Return the bytes of files that this process has mapped and read.

    0 if the system does not report them.
    """
    return number_after(_STATUS, b"RssFile:") * 1024


def number_after(path: Path, name: bytes) -> int:
    """Return the number after a name in a file of the system, 0 if there is none."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in path.read_bytes().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    return 0


def memory_by_psutil(pid: int, kind: str = "rss") -> int:
    """Return one of psutil's figures for a process, in bytes; 0 if it has ended."""
    try:
        return int(getattr(psutil.Process(pid).memory_info(), kind))
    except psutil.Error:
        return 0
