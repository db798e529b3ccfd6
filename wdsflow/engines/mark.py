"""Which sample a process works on: still readable when the process is gone."""

import mmap
import os
import struct

_NUMBER = struct.Struct("<q")


class Mark:
    """A number in a few bytes of shared memory, after a file descriptor."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        if os.fstat(fd).st_size < mmap.PAGESIZE:
            os.ftruncate(fd, mmap.PAGESIZE)
        self._memory = mmap.mmap(fd, mmap.PAGESIZE)
        self.set(-1)

    def set(self, number: int) -> None:
        """Note the number of the sample that is begun; -1: none."""
        _NUMBER.pack_into(self._memory, 0, number)

    def get(self) -> int:
        """Return the number that was noted last."""
        number: int = _NUMBER.unpack_from(self._memory)[0]
        return number
