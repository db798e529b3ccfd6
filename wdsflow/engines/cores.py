"""How many processors there are for this process."""

import contextlib
import os
from pathlib import Path

_GRANTED = Path("/sys/fs/cgroup/cpu.max")


def usable_cores() -> int:
    """Return how many processors this process may use, at least 1: a container may grant less than it shows."""
    quota = cpu_quota()
    return shown_cores() if quota is None else min(shown_cores(), max(1, int(quota)))


def shown_cores() -> int:
    """Return how many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_quota() -> float | None:
    """Return how many processors' time the container grants; None if it grants all."""
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):  # "max" is no number
        share, _, period = _GRANTED.read_text(encoding="ascii").partition(" ")
        return int(share) / int(period)
    return None
