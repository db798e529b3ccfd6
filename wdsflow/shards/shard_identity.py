"""The identity of a shard's bytes, by which a change is noticed."""

import os
from collections.abc import Mapping

from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import as_source_errors, open_file
from wdsflow.shards.source.remote import MARKS, file_facts

# In an identity: the table whose fields the samples get, and the time of change.
JOIN, _CHANGED = "join", "changed"
_PIECES = 16
# Bytes.
PIECE = 4 << 10


def piece_offsets(size: int) -> list[int]:
    """Return the offsets of the 16 pieces of a file that ``fingerprint`` reads."""
    last = max(0, size - PIECE)
    return [last * number // (_PIECES - 1) for number in range(_PIECES)]


def fingerprint(path: str) -> dict[str, object]:
    """Return the size of a file and a hash of 16 pieces of 4 KiB spread over it.

    It detects every change of some length.

    Raises SourceError, OSError.
    """
    from xxhash import xxh3_64_hexdigest

    file = open_file(path)
    try:
        size = os.fstat(file).st_size
        pieces = [os.pread(file, PIECE, offset) for offset in piece_offsets(size)]
    finally:
        os.close(file)
    return {"size": size, "pieces": xxh3_64_hexdigest(b"".join(pieces))}


def same_input(then: Mapping[str, object], now: Mapping[str, object]) -> bool:
    """Return whether two identities are of the same bytes.

    A file that was only touched is the same input.

    Each must be of the same table, or of none: see ``joined_identity``.
    """
    marks = now.keys() | (then.keys() & {JOIN})
    return all(then.get(mark) == now.get(mark) for mark in marks if mark != _CHANGED)


def joined_identity(url: Shard, join: str) -> dict[str, object]:
    """Return the identity of a shard whose samples get fields of a table.

    ``join``: a digest of the table, "" for none.

    Raises SourceError.
    """
    identity = input_identity(url)
    if join:
        identity[JOIN] = join
    return identity


def input_identity(url: Shard) -> dict[str, object]:
    """Return values that change when a shard changes, without reading all of it.

    Not every change can be detected this way.

    For a local file size, time of change and pieces; for a remote one the marks that its server
    sends. Raises SourceError.
    """
    if url.is_pipe:
        return {"url": url}
    path = url.path
    if path is None:
        info = file_facts(url)
        remote: dict[str, object] = {"size": info.get("size")}
        for mark in MARKS:
            if info.get(mark) is not None:
                remote[mark] = str(info[mark])
        return remote
    local = fingerprint(path)
    with as_source_errors():
        local[_CHANGED] = os.stat(path).st_mtime_ns
    return local
