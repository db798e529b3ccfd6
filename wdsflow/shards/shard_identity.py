"""The identity of a shard's bytes, by which a change is noticed."""

import os
import stat
from base64 import b64encode
from hashlib import sha256
from typing import NamedTuple

from wdsflow.shards.source.base import SourceError, local_path, open_file, why_unreadable
from wdsflow.shards.source.remote import about

Mark = int | str | None


class Stored(NamedTuple):
    """Size and mark of a stored shard, known without reading it.

    ``mark`` changes with the file: of a local one its time of change in microseconds since 1970; of another the first 16
    characters of base64 of SHA-256 of the ETag without quotes, or of another value of the server; None if it sends none.
    """

    size: int | None
    mark: Mark


_PIECES = 16
PIECE = 4 << 10  # bytes
_MARKS = (
    "etag ETag sha256 xet_hash blob_id md5Hash crc32c generation LastModified Last-Modified last_modified mtime".split()
)
_TAGS = frozenset(("etag", "ETag"))  # the server changes it with the contents; through any url of a file it is the same


def stored(url: str) -> Stored:
    """Return size and mark of a shard as it is now; nothing of it is read. Raises SourceError."""
    path = local_path(url)
    if path is None:
        found = about(url)
        mark = next(((name, str(found[name])) for name in _MARKS if found.get(name) is not None), None)
        size = found.get("size")
        return Stored(size if isinstance(size, int) else None, mark and _short(*mark))
    with why_unreadable():
        status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise SourceError("refused", "is not a regular file")
    return Stored(status.st_size, status.st_mtime_ns // 1000)


def _short(name: str, value: str) -> str:
    text = f"etag:{value.removeprefix('W/').strip(chr(34))}" if name in _TAGS else f"{name}:{value}"
    return b64encode(sha256(text.encode()).digest()[:12]).decode()


def piece_offsets(size: int) -> list[int]:
    """Return the offsets of the 16 pieces of a file that ``fingerprint`` reads."""
    last = max(0, size - PIECE)
    return [last * number // (_PIECES - 1) for number in range(_PIECES)]


def fingerprint(path: str) -> dict[str, object]:
    """Return size and a hash of 16 pieces of 4 KiB spread over a file, which finds every change of some length.

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


def input_identity(url: str) -> dict[str, object]:
    """Return values that change when a shard changes, as far as that is possible without reading all of it.

    For a local file size, time of change and pieces; for a remote one the marks that its server sends. Raises SourceError.
    """
    if url.startswith("pipe:"):
        return {"url": url}
    path = local_path(url)
    if path is None:
        known = about(url)
        return {"size": known.get("size"), **{mark: str(known[mark]) for mark in _MARKS if known.get(mark) is not None}}
    found = fingerprint(path)
    with why_unreadable():
        found["changed"] = os.stat(path).st_mtime_ns
    return found
