"""Memory that forked processes share: files without a name, which disappear with their last user.

Never ``/dev/shm``: containers often have 64 MiB there, and semaphores of multiprocessing are files
there too.
"""

import mmap
import os
import tempfile


def unnamed_file(size: int) -> int:
    """Return the descriptor of an unnamed file of ``size`` zero bytes.

    It is in memory if the system supports it, otherwise in a temporary folder.

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
    fd = unnamed_file(size)
    try:
        return mmap.mmap(fd, size)
    finally:
        os.close(fd)
