"""Pages of files that a process has mapped and read: the system counts them as its memory, though it can have them back."""

import contextlib
import ctypes
import os
import sys
from collections.abc import Collection
from pathlib import Path

_DONT_NEED = 4  # MADV_DONTNEED of Linux


def let_go(files: Collection[str]) -> None:
    """Let go of what this process has read of files that it has mapped for reading; it is read again when it is needed.

    Nothing happens where the system is no Linux.
    """
    if not sys.platform.startswith("linux"):
        return
    wanted = {os.path.realpath(file) for file in files}
    with contextlib.suppress(OSError, AttributeError, ValueError):
        advise = ctypes.CDLL(None, use_errno=True).madvise
        advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for line in Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines():
            span, rights, *_, last = line.split(maxsplit=5)  # the last is the path, where there is one
            if rights.startswith("r-") and last in wanted:  # what cannot be written to is as it is in the file
                start, end = (int(word, 16) for word in span.split("-"))
                advise(start, end - start, _DONT_NEED)
