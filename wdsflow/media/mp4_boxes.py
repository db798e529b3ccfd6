"""Whether an MP4 or MOV is complete, by the lengths of its outermost boxes."""

from collections.abc import Callable

_MOST = 64  # boxes: a file in fragments has many

Read = Callable[[int, int], bytes]  # offset within the file, number of bytes


def is_cut(size: int, read: Read) -> bool:
    """Return whether the file ends inside a box, or without the index (``moov``) that players need.

    Reads 16 bytes of each box, and never goes back. False where that does not tell.
    """
    at, index = 0, False
    for _ in range(_MOST):
        if at >= size:
            return not index
        head = read(at, 16)
        if len(head) < 8:
            return size - at < 8 and not index  # or the source cannot read there
        length, name = int.from_bytes(head[:4], "big"), head[4:8]
        if not (name.isalnum() and name.isascii()) and name[:1] != b"\xa9" and name != b"\0\0\0\0":
            return False  # something follows that is no box
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        elif not length:
            return not index and name != b"moov"  # the last box: it goes on to the end
        if length < 8:
            return False
        index = index or name in (b"moov", b"moof")
        at += length
        if at > size:
            return True
    return False
