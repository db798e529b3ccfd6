"""Whole files as outputs: copies byte for byte, or hard links."""

import errno
import os
from pathlib import Path

from wdsflow.shards.atomic import atomic_file, os_errors_named
from wdsflow.shards.source.base import Source, SourceChangedError, local_path

from .sink import Sink
from .writer import copy_range

# Bytes that the kernel copies in one call: a run that is
# interrupted need not wait for a large file.
_STEP = 64 << 20
# Errors of systems and file systems without such copies.
_NO_COPY = frozenset((errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM))


def copy_file(path: Path, source: Source) -> int:
    """Copy an uncompressed source to a file, and return the number of bytes.

    An existing file is replaced in one step.

    The kernel copies a local file, or shares its blocks where the file system can. Raises
    SourceChangedError if the source ends early, OSError if the disk fails.
    """
    size = source.length
    assert size is not None
    with atomic_file(path) as file:
        copied = _copied_by_kernel(source, file, size) if source.fd >= 0 else 0
        sink = Sink(file, path)
        try:
            copy_range(sink, source, copied, size)
            sink.write_rest()
        finally:
            sink.close()
    return size


def link_file(path: Path, url: str) -> bool:
    """Give a local file a second name; return whether that is possible: not on another file system.

    Raises OSError if the file at ``path`` cannot be replaced.
    """
    local = local_path(url)
    if local is None:
        return False
    with os_errors_named(path):
        path.unlink(missing_ok=True)
    try:
        # Of a link, the file that it leads to.
        os.link(os.path.realpath(local), path)
    except OSError:
        return False
    return True


def _copied_by_kernel(source: Source, file: int, size: int) -> int:
    """Copy as much as the kernel can, and return how many bytes."""
    if not hasattr(os, "copy_file_range"):
        return 0
    copied = 0
    while copied < size:
        try:
            count = os.copy_file_range(source.fd, file, min(_STEP, size - copied), copied)
        except OSError as error:
            if error.errno in _NO_COPY:
                return copied
            raise
        if not count:
            raise SourceChangedError.short(copied, size - copied)
        copied += count
    return copied
