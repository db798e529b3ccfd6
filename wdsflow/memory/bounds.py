"""Memory that this process may use: of the machine, its control groups, and its own limits."""

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

from .usage import memory_by_psutil, number_after, private_data_bytes

# Files with the bound, the use, and the name of the reclaimable cache within the use, by the
# controllers in /proc/self/cgroup: "" is version 2, "memory" version 1.
_FILES = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
# Bytes; without a bound, version 1 reports nearly 2**63.
_NO_BOUND = 1 << 60


class Bound(NamedTuple):
    """The limit in bytes, and the bytes in use."""

    limit: int
    used: int


class HostMemory(NamedTuple):
    """Bytes that this process may use, and free bytes: of the machine, or of a tighter bound."""

    total: int
    free: int


def host_memory() -> HostMemory:
    """Return the memory available to this process.

    The tightest bound of the machine, control groups and the process's own limits applies.
    """
    machine = psutil.virtual_memory()
    total = int(machine.total)
    free = int(machine.available)
    # Which psutil does not see.
    for bound in [*control_groups(), *_process_limits()]:
        total = min(total, bound.limit)
        free = max(0, min(free, bound.limit - bound.used))
    return HostMemory(total, free)


def control_groups() -> list[Bound]:
    """Return the bounds of each control group above this process."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return group_bounds(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup").read_text())
    return []


def group_bounds(root: Path, groups: str) -> list[Bound]:
    """Return the bounds of control groups mounted at ``root``.

    ``groups`` is the text of /proc/self/cgroup.

    A container sees its own group at the root, regardless of the file.
    """
    bounds: list[Bound] = []
    for line in groups.splitlines():
        # Number, controllers, path.
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        kind = "memory" if "memory" in controllers.split(",") else controllers
        if kind not in _FILES:
            continue
        group = Path(path.lstrip("/"))
        for ancestor in (group, *group.parents):
            bound = _bound(root / kind / ancestor, kind)
            if bound is not None:
                bounds.append(bound)
    return bounds


def _bound(group: Path, kind: str) -> Bound | None:
    """Return the bound of a control group, None if it has none."""
    most_file, used_file, cache = _FILES[kind]
    # "max" is not a number.
    with contextlib.suppress(OSError, ValueError):
        most = int((group / most_file).read_text())
        used = int((group / used_file).read_text())
        if most < _NO_BOUND:
            reclaimable = number_after(group / "memory.stat", cache.encode() + b" ")
            return Bound(most, max(0, used - reclaimable))
    return None


def _process_limits() -> Iterator[Bound]:
    """Yield the limits that a shell's ``ulimit -v`` and ``ulimit -d`` set, for one process each."""
    address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if address_space != resource.RLIM_INFINITY:
        yield Bound(address_space, memory_by_psutil(os.getpid(), "vms"))
    data, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if data != resource.RLIM_INFINITY:
        yield Bound(data, private_data_bytes())
