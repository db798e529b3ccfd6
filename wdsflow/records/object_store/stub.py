"""Stubs: sparse files that stand for objects of a store.

A stub has the size of the object, and those pieces of its bytes that ``fingerprint`` reads. So it
has the same identity, and takes up hardly any disk.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from wdsflow.shards.shard_identity import PIECE, piece_offsets


def write_empty_stub(path: Path, size: int) -> None:
    """Write a stub without pieces, of ``size`` bytes. Raises OSError."""
    with open(path, "wb") as file:
        file.truncate(size)


def piece_ranges(size: int) -> tuple[list[int], list[int]]:
    """Return where the pieces of a file start, and where they end."""
    starts = piece_offsets(size)
    ends = [min(size, start + PIECE) for start in starts]
    return starts, ends


def fill_stub(path: Path, starts: Sequence[int], pieces: Sequence[bytes]) -> None:
    """Write the pieces into an empty stub. Raises OSError."""
    with open(path, "r+b") as file:
        for start, piece in zip(starts, pieces, strict=True):
            os.pwrite(file.fileno(), piece, start)


def replace_by_stub(path: Path) -> None:
    """Replace a file by its stub, which frees the disk. Raises OSError."""
    stub = path.with_name(f"{path.name}.stub.wdsflow.tmp")
    with open(path, "rb") as file, open(stub, "wb") as stub_file:
        size = os.fstat(file.fileno()).st_size
        # The last piece ends where the file does.
        for start in piece_offsets(size):
            piece = os.pread(file.fileno(), PIECE, start)
            os.pwrite(stub_file.fileno(), piece, start)
    os.replace(stub, path)
