"""Memory of processes, and its bounds."""

import contextlib
import os
import resource
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil

# Seconds.
_OLD = 1.0
# Bytes.
_LIKE = 1 << 20
_PAGE = resource.getpagesize()
_STATUS = Path("/proc/self/status")
# Of ru_maxrss.
_UNIT = 1 if sys.platform == "darwin" else 1024

# Bound, use, and the reclaimable cache within the use; of versions 2 and 1.
_FILES = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
# Bytes; without a bound, version 1 reports nearly 2**63.
_NONE = 1 << 60


def resident(pid: int) -> int:
    """Return the resident bytes of a process, 0 if it has ended. Pages shared with others count in full."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError):
        return _by_psutil(pid)


def held(pid: int) -> int:
    """Return the resident bytes of a process with shared pages divided among those who share them (PSS).

    The sum over processes is their total. Resident bytes if the system does not report it; 0 if the
    process has ended.
    """
    return _number(Path(f"/proc/{pid}/smaps_rollup"), b"Pss:") * 1024 or resident(pid)


class HeldMemory:
    """``held``, measured again only after a second, or if resident bytes have changed by more than 1 MiB.

    Dividing shared pages takes the system many milliseconds for a process with PyTorch.
    """

    def __init__(self) -> None:
        # Of a process: when, resident bytes, held.
        self._known: dict[int, tuple[float, int, int]] = {}

    def __call__(self, pid: int) -> int:
        """Return the result of ``held``."""
        now, bare = time.monotonic(), resident(pid)
        when, before, taken = self._known.get(pid, (-_OLD, 0, 0))
        if now - when >= _OLD or abs(bare - before) > _LIKE:
            taken = held(pid)
            self._known[pid] = now, bare, taken
        return taken


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and their descendants."""
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
    return (
        _number(_STATUS, b"VmHWM:") * 1024
        or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
    )


def private_data() -> int:
    """Return the bytes of this process that ``RLIMIT_DATA`` counts, 0 if the system does not report them."""
    return _number(_STATUS, b"VmData:") * 1024


def mapped_files() -> int:
    """Return the bytes of files that this process has mapped and read, 0 if the system does not report them."""
    return _number(_STATUS, b"RssFile:") * 1024


def _number(path: Path, name: bytes) -> int:
    """Return the number after a name in a file of the system, 0 if there is none."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return next(
            (
                int(line.split()[1])
                for line in path.read_bytes().splitlines()
                if line.startswith(name)
            ),
            0,
        )
    return 0


def _by_psutil(pid: int, what: str = "rss") -> int:
    try:
        return int(getattr(psutil.Process(pid).memory_info(), what))
    except psutil.Error:
        return 0


class Bound(NamedTuple):
    """The limit in bytes, and the bytes in use."""

    most: int
    used: int


class HostMemory(NamedTuple):
    """Bytes that this process may use, and free bytes: of the machine, or of a tighter bound."""

    total: int
    free: int


def host_memory() -> HostMemory:
    """Return the memory for this process, by the tightest of machine, control groups and its own limits."""
    machine = psutil.virtual_memory()
    total, free = int(machine.total), int(machine.available)
    # Which psutil does not see.
    for most, used in [*control_groups(), *_own()]:
        total, free = min(total, most), max(0, min(free, most - used))
    return HostMemory(total, free)


def control_groups() -> list[Bound]:
    """Return the bounds of each control group above this process."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return group_bounds(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup").read_text())
    return []


def group_bounds(root: Path, groups: str) -> list[Bound]:
    """Return the bounds of control groups mounted at ``root``; ``groups`` is the text of /proc/self/cgroup.

    A container sees its own group at the root, regardless of the file.
    """
    found = []
    for line in groups.splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        kind = "memory" if "memory" in controllers.split(",") else controllers
        if kind in _FILES:
            own = Path(path.lstrip("/"))
            found += [_bound(root / kind / group, kind) for group in (own, *own.parents)]
    return [bound for bound in found if bound is not None]


def _bound(group: Path, kind: str) -> Bound | None:
    most, used, cache = _FILES[kind]
    # "max" is not a number.
    with contextlib.suppress(OSError, ValueError):
        bound, use = (int((group / name).read_text()) for name in (most, used))
        if bound < _NONE:
            return Bound(bound, max(0, use - _number(group / "memory.stat", cache.encode() + b" ")))
    return None


def _own() -> Iterator[Bound]:
    """Yield the limits that a shell's ``ulimit -v`` and ``ulimit -d`` set, for one process each."""
    for limit, used in (
        (resource.RLIMIT_AS, partial(_by_psutil, os.getpid(), "vms")),
        (resource.RLIMIT_DATA, private_data),
    ):
        most = resource.getrlimit(limit)[0]
        if most != resource.RLIM_INFINITY:
            yield Bound(most, used())
