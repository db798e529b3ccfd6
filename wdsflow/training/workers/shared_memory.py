"""How much shared memory there is, for messages about processes that need more of it."""

import errno
import os

from wdsflow.memory.sizes import format_size

_SHARED = "/dev/shm"  # noqa: S108 - what others put there


def shared_memory_notes(error: BaseException, processes: str) -> list[str]:
    """Return how much shared memory there is, and how to get more, if an error may be for want of it.

    ``processes``: how the user names the number of decoding processes.
    """
    if _SHARED in str(error) or "shared memory" in str(error) or getattr(error, "errno", 0) == errno.ENOSPC:
        return [f"  {shared_memory_state()}; {more_shared(processes)}"]
    return []


def more_shared(processes: str) -> str:
    """Return how to get more shared memory; ``processes`` as in ``shared_memory_notes``."""
    return f"more shared memory for a container: docker run --shm-size=8g ..., or fewer processes: {processes}"


def shared_memory_state() -> str:
    """Return how much of the shared memory is free."""
    try:
        found = os.statvfs(_SHARED)
    except OSError as error:
        return f"{_SHARED} is not there ({error.strerror})"
    free, total = (format_size(blocks * found.f_frsize) for blocks in (found.f_bavail, found.f_blocks))
    return f"{_SHARED} has {free} of {total} free"
