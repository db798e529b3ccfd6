"""State files next to the address of a process.

They tell how busy it is, what it has done, and whether it will be replaced.
"""

import math
import os
import threading
from contextlib import suppress
from pathlib import Path


def output_marker(address: str) -> Path:
    """Return the file that exists if the process has computed an output."""
    return Path(f"{address}.worked")


def ended_marker(address: str) -> Path:
    """Return the file that exists if no other process will be started."""
    return Path(f"{address}.ended")


def costs_file(address: str) -> Path:
    """Return the file with what models took in the process: see ``model_costs``."""
    return Path(f"{address}.costs")


def pending_call_count(address: str) -> float:
    """Return how many calls wait or run in the process at an address.

    Infinity if it accepts no calls now.
    """
    # It is being replaced, or it will not be.
    if not os.path.exists(address) or ended_marker(address).exists():
        return math.inf
    try:
        return int(_load_file(address).read_bytes())
    except (OSError, ValueError):
        # It is starting.
        return 0.0


class PendingCallCount:
    """A context of a call, which is counted in a file, for ``pending_call_count``."""

    def __init__(self, address: str) -> None:
        self._file = os.open(_load_file(address), os.O_CREAT | os.O_RDWR | os.O_TRUNC)
        self._lock = threading.Lock()
        self._count = 0

    def __enter__(self) -> None:
        self._add(1)

    def __exit__(self, *_: object) -> None:
        self._add(-1)

    def _add(self, calls: int) -> None:
        with self._lock:
            self._count += calls
            os.pwrite(self._file, b"%8d" % self._count, 0)


def remove_files(address: str) -> None:
    """Remove the files of a process, its socket, and their folder if it is empty."""
    files = (
        output_marker(address),
        ended_marker(address),
        _load_file(address),
        costs_file(address),
    )
    with suppress(OSError):
        for file in files:
            file.unlink(missing_ok=True)
        os.unlink(address)
        os.rmdir(os.path.dirname(address))


def _load_file(address: str) -> Path:
    return Path(f"{address}.load")
