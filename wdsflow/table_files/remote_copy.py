"""Copies of remote tables, which have to be read in any order."""

from pathlib import Path

from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import SourceError
from wdsflow.shards.source.opening import open_source, unpack

from .errors import TableError


def local_copy(url: Shard, scratch: Path, extension: str) -> str:
    """Return the path of a local copy of a remote file.

    The file has to be read in any order. Raises TableError.
    """
    path = scratch / f"copy-{len(list(scratch.iterdir()))}{extension}"
    try:
        with open_source(url) as source, open(path, "wb") as file:
            unpack(source, file.fileno(), scratch)
    except SourceError as error:
        raise TableError(f"{url} cannot be read: {error}") from None
    return str(path)
