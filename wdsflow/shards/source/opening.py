"""Opens a shard, wherever it is stored and however it is compressed."""

import os

from .base import FIRST, NEXT, LocalSource, Source, SourceError, local_path, open_file
from .decompress import compression_of
from .digest import Digest
from .streams import ForwardSource


def open_source(url: str, *, allow_pipe: bool = False, digest: Digest | None = None) -> Source:
    """Open a shard: a local path, a ``file:`` url, a url that fsspec knows, or (``allow_pipe``) a shell command.

    Compression is recognized by the first bytes, whatever the name. ``digest`` hashes a shard of another machine while
    it is read. Raises ``SourceError``.
    """
    if url.startswith("pipe:"):
        if not allow_pipe:
            raise SourceError("refused", "pipe: urls run shell commands: allow that with --allow-pipe")
        from .pipe import open_pipe

        return open_pipe(url)
    path = local_path(url)
    if path is not None:
        return _open_local(url, path)
    from .remote import open_remote

    return open_remote(url, digest)


def _open_local(url: str, path: str) -> Source:
    fd = open_file(path)
    try:
        start = os.pread(fd, FIRST, 0)
    except OSError as error:
        os.close(fd)
        raise SourceError("io", str(error)) from None
    if compression_of(start) is None:
        return LocalSource(url, fd)
    os.lseek(fd, len(start), os.SEEK_SET)
    return ForwardSource(url, lambda: os.read(fd, NEXT), start, size=os.fstat(fd).st_size, close=lambda: os.close(fd))
