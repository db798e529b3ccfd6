"""Whether a shard is still the one that it was."""

import os
from contextlib import suppress
from typing import Any

from wdsflow.shards.source.base import SourceError, local_path, open_file

_PIECES, _PIECE = 16, 4 << 10
_MARKS = ("etag", "ETag", "md5Hash", "crc32c", "generation", "LastModified", "Last-Modified", "last_modified", "mtime")


def fingerprint(path: str) -> dict[str, Any]:
    """Return size and a hash of 16 pieces of 4 KiB spread over a file: a change of some length does not escape it.

    Raises SourceError, OSError.
    """
    from xxhash import xxh3_64_hexdigest

    file = open_file(path)
    try:
        size = os.fstat(file).st_size
        last = max(0, size - _PIECE)
        pieces = [os.pread(file, _PIECE, last * number // (_PIECES - 1)) for number in range(_PIECES)]
    finally:
        os.close(file)
    return {"size": size, "pieces": xxh3_64_hexdigest(b"".join(pieces))}


def input_identity(url: str) -> dict[str, Any]:
    """Return what returns whether a shard is the one it was, as far as that can be had without reading it all.

    For a local file size, time of change and pieces; for a remote one what its server tells. Raises SourceError.
    """
    if url.startswith("pipe:"):
        return {"url": url}
    path = local_path(url)
    if path is None:
        return _remote_identity(url)
    found = fingerprint(path)
    try:
        found["changed"] = os.stat(path).st_mtime_ns
    except OSError as error:
        raise SourceError("io", str(error)) from None
    return found


def _remote_identity(url: str) -> dict[str, Any]:
    from wdsflow.shards.source.remote import about

    found = about(url)
    identity: dict[str, Any] = {"size": found.get("size")}
    for mark in _MARKS:
        with suppress(TypeError, ValueError):
            if found.get(mark) is not None:
                identity[mark] = str(found[mark])
    return identity
