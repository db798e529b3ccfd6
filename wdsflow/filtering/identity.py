"""Whether a file, or a recipe, is still the one that it was."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from wdsflow.shards.source import SourceError, local_path, open_file

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
    """Return what tells whether a shard is the one it was, as far as that can be had without reading it all.

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
    from wdsflow.shards.remote import about

    found = about(url)
    identity: dict[str, Any] = {"size": found.get("size")}
    for mark in _MARKS:
        with suppress(TypeError, ValueError):
            if found.get(mark) is not None:
                identity[mark] = str(found[mark])
    return identity


def canonical(value: Any) -> str:
    """Return JSON that is the same for the same content."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)


def digest(value: Any) -> str:
    """Return a short hash of anything that JSON can hold."""
    from xxhash import xxh3_128_hexdigest

    return str(xxh3_128_hexdigest(canonical(value).encode("utf-8", "surrogatepass")))


def differences(old: Any, new: Any, at: str = "") -> Iterator[str]:
    """Name what differs between two trees of JSON.

    >>> list(differences({"where": "a > 1", "v": {"x": 1}}, {"where": "a > 2", "v": {"x": 1}}))
    ['where: "a > 1" is now "a > 2"']
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*old, *(name for name in new if name not in old)]:
            yield from differences(old.get(name), new.get(name), f"{at}.{name}" if at else str(name))
    elif canonical(old) != canonical(new):
        if isinstance(old, list) and isinstance(new, list) and max(len(old), len(new)) > 8:
            yield f"{at}: {_sets(old, new)}"
        else:
            yield f"{at}: {_short(old)} is now {_short(new)}"


def _sets(old: list[Any], new: list[Any]) -> str:
    before, after = {canonical(item) for item in old}, {canonical(item) for item in new}
    return f"{len(after - before):,} are new, {len(before - after):,} are gone" if before != after else "another order"


def _short(value: Any) -> str:
    text = canonical(value)
    return text if len(text) <= 200 else f"{text[:197]}..."
