"""What bounds the memory of this process beyond the machine's: its control groups, and its own limits."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

from wdsflow.memory.usage import private_data

_FILES = {  # bound, use, and what of the use is cache that goes when memory is short; of versions 2 and 1
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
_NONE = 1 << 60  # bytes; version 1 tells a bound of nearly 2**63 where there is none


class Bound(NamedTuple):
    """Bytes that there may be, and that are in use."""

    most: int
    used: int


class HostMemory(NamedTuple):
    """Bytes that this process may have, and that are free: of the machine, or of what bounds it."""

    total: int
    free: int


def host_memory() -> HostMemory:
    """Return the memory for this process, by the tightest of machine, control groups and its own limits."""
    machine = psutil.virtual_memory()
    total, free = int(machine.total), int(machine.available)
    for most, used in [*control_groups(), *_own()]:  # which psutil does not see
        total, free = min(total, most), max(0, min(free, most - used))
    return HostMemory(total, free)


def control_groups() -> list[Bound]:
    """Return the bounds of each control group above this process."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return group_bounds(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup").read_text())
    return []


def group_bounds(root: Path, groups: str) -> list[Bound]:
    """Return the bounds of control groups mounted at ``root``; ``groups`` is what /proc/self/cgroup has.

    A container sees its own group at the root, whatever the file says.
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
    with contextlib.suppress(OSError, ValueError):  # "max" is no number
        bound, use = (int((group / name).read_text()) for name in (most, used))
        if bound < _NONE:
            return Bound(bound, max(0, use - _stat(group, cache)))
    return None


def _stat(group: Path, name: str) -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in (group / "memory.stat").read_text().splitlines():
            found, _, value = line.partition(" ")
            if found == name:
                return int(value)
    return 0


def _own() -> Iterator[Bound]:
    """Yield the limits that a shell's ``ulimit -v`` and ``ulimit -d`` set, for one process each."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for limit, used in ((resource.RLIMIT_AS, _address_space), (resource.RLIMIT_DATA, private_data)):
        most = resource.getrlimit(limit)[0]
        if most != resource.RLIM_INFINITY:
            yield Bound(most, used())


def _address_space() -> int:
    try:
        return int(psutil.Process(os.getpid()).memory_info().vms)
    except psutil.Error:
        return 0
