"""Opens shards as sources, and as sources that can be read in any order."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from wdsflow.shards.atomic import create_temporary, discard_temporary, os_errors_named
from wdsflow.shards.shard import Shard

from .base import FIRST, NEXT, LocalSource, Source, SourceError, StreamFault, open_file
from .decompress import compression_of
from .remote import open_remote
from .streams import ForwardSource, open_pipe

_STEP = 4 << 20
_BOMB_BYTES, _BOMB_RATIO = 1 << 30, 100


def open_source(shard: Shard, *, allow_pipe: bool = False) -> Source:
    """Open a shard: a file, a url that fsspec knows, or the output of a shell command.

    Shell commands are run only with ``allow_pipe``.

    Compression is recognized by the first bytes, not by the name. Raises ``SourceError``.
    """
    if shard.lacks_secret:
        raise SourceError(
            "denied", "its password or signature is not stored: name it by its whole url"
        )
    if shard.is_pipe:
        if not allow_pipe:
            raise SourceError(
                "refused", "pipe: urls run shell commands: allow that with --allow-pipe"
            )
        return open_pipe(shard)
    if shard.path is not None:
        return _open_local(shard, shard.path)
    return open_remote(shard)


def _open_local(shard: Shard, path: str) -> Source:
    fd = open_file(path)
    try:
        start = os.pread(fd, FIRST, 0)
    except OSError as error:
        os.close(fd)
        raise SourceError("io", str(error)) from None
    if compression_of(start) is None:
        return LocalSource(shard, fd)
    os.lseek(fd, len(start), os.SEEK_SET)
    return ForwardSource(
        shard,
        lambda: os.read(fd, NEXT),
        start,
        size=os.fstat(fd).st_size,
        close=lambda: os.close(fd),
    )


class CompressionFaults(NamedTuple):
    """Faults of the bytes of a shard before they were unpacked."""

    damage: str | None = None
    is_truncated: bool = False
    fault: StreamFault | None = None

    @staticmethod
    def of(source: Source) -> "CompressionFaults":
        """Return it for a source that was read to its end."""
        return CompressionFaults(source.damage, source.is_truncated, source.fault)

    def copy_to(self, copy: Source) -> str:
        """Set these faults on the source of the unpacked tar.

        Returns the faults that a walk over the tar does not report.
        """
        copy.damage, copy.is_truncated, copy.fault = self
        return (
            ""
            if self.is_truncated or self.fault is not None or not copy.length
            else self.damage or ""
        )


@contextmanager
def seekable(
    url: Shard, folder: Path, *, allow_pipe: bool = False, here: bool = True
) -> Iterator[tuple[Source, str]]:
    """Open a shard for reading in any order, and report faults of its compression.

    A truncation or another fault is also set on the source.

    A source that can only be read forward is first unpacked into ``folder``, for the block. With
    ``here`` a remote one is copied, too.

    Raises SourceError if it cannot be read, OSError if ``folder`` cannot take it.
    """
    with open_source(url, allow_pipe=allow_pipe) as source:
        anywhere = source.compression is None and source.is_seekable and source.length is not None
        if source.fd >= 0 or (anywhere and not here):
            yield source, ""
            return
        name, file = create_temporary(folder / "unpacked")
        try:
            unpack(source, file, folder)
            with open_source(Shard.file(str(name))) as copy:
                trouble = CompressionFaults.of(source).copy_to(copy)
                copy.url, copy.is_temporary_copy = url, True
                yield copy, trouble
        finally:
            discard_temporary(name, file)


def unpack(source: Source, file: int, folder: Path) -> None:
    """Write all bytes of a shard, decompressed, to a file in ``folder``.

    Raises SourceError, or OSError for the folder.
    """
    at = 0
    # Also streams that tarfile does not reach.
    while (data := source.read_at(at, _STEP)) or source.continue_past_end():
        at += len(data)
        if at > max(_BOMB_BYTES, _BOMB_RATIO * (source.size or at)):
            raise SourceError(
                "refused",
                f"expands to more than {_BOMB_RATIO} times its size: not unpacked further",
            )
        view = memoryview(data)
        with os_errors_named(folder):
            while view:
                view = view[os.write(file, view) :]
