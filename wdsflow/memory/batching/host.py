"""The host's memory, for models that run on the CPU."""

import contextlib
import ctypes
import gc
import os
import platform
from collections.abc import Mapping
from typing import Any

from wdsflow.memory.limits import host_memory
from wdsflow.memory.usage import forget_peak, peak, resident


class HostDevice:
    """The CPU as a device. Its memory ends with a MemoryError only under a limit such as RLIMIT_DATA.

    Without one the system kills the process: bound the ceiling before (``Ceiling(most=...)``, by ``Probe.ceiling``).
    """

    name = "cpu"

    def __init__(self) -> None:
        self._start = 0

    def release(self) -> None:
        """Collect garbage, and give back to the system what the allocator keeps."""
        gc.collect()
        _trim()

    def check(self) -> None:
        """Do nothing: the CPU is not lost by an error."""

    def memory(self) -> Mapping[str, int]:
        """Return bytes: total and free of the machine, or of what bounds this process; resident of it."""
        total, free = host_memory()
        return {"free": free, "total": total, "resident": resident(os.getpid())}

    def facts(self) -> dict[str, Any]:
        """Return what of the host decides how much fits: for the key of a saved ceiling."""
        return {"device": f"cpu {platform.machine()}", "memory": self.memory()["total"]}

    def begin(self) -> None:
        """Let ``took`` count from here."""
        forget_peak()
        self._start = resident(os.getpid())

    def took(self) -> int:
        """Return the most bytes that this process had since ``begin`` beyond those that it had then."""
        return max(0, peak() - self._start)


def _trim() -> None:
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)
