"""Moves the memory of this process into huge pages, before it is forked.

A fork copies the page tables of its parent, and so does each fork of a fork: the processes that run
tests, their servers of programs, and the programs. Of 500 MB in pages of 4 KiB they have 120,000
entries, in pages of 2 MiB 250.
"""

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path

HUGE = 2 << 20
# Of madvise(2), since Linux 6.1; older ones refuse it.
_MADV_COLLAPSE = 25


def collapse() -> int:
    """Move the heap and unnamed memory that can be written to, in whole blocks, into huge pages.

    Returns how many bytes were moved, or were there already; 0 where the system cannot do that.
    """
    if sys.platform != "linux":
        return 0
    madvise = ctypes.CDLL(None).madvise
    collapsed = 0
    for start, end in _anonymous_ranges():
        first_whole = -(-start // HUGE) * HUGE
        for address in range(first_whole, end - HUGE + 1, HUGE):
            status = madvise(
                ctypes.c_void_p(address), ctypes.c_size_t(HUGE), ctypes.c_int(_MADV_COLLAPSE)
            )
            if status == 0:
                collapsed += HUGE
    return collapsed


def _anonymous_ranges() -> Iterator[tuple[int, int]]:
    """Yield the first and the last address plus 1 of each range, as in proc_pid_maps(5)."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, rights, _, _, _, *name = line.split(maxsplit=5)
        if not rights.startswith("rw") or name not in ([], ["[heap]"]):
            continue
        start, _, end = addresses.partition("-")
        yield int(start, 16), int(end, 16)
