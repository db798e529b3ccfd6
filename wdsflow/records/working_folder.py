"""The local folder in which a run works.

It is the output folder, or a temporary one if the output is a url of an object store.
"""

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wdsflow.shards.scratch import scratch
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import local_folder, local_path
from wdsflow.shards.source.remote import filesystem
from wdsflow.text.secrets import redact

from .object_store.store import Store

_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
# Stores of runs that work, by their working folders.
_active: dict[Path, Store] = {}


def remote_url(out: str | os.PathLike[str]) -> str | None:
    """Return the url of an output folder in an object store, None for a local folder."""
    if not isinstance(out, str) or local_path(out) is not None:
        return None
    # Nothing can be written there.
    if re.match("(https?|pipe):", out):
        return None
    return out


@contextmanager
def working_folder(out: str | os.PathLike[str], *, dry_run: bool = False) -> Iterator[Path]:
    """Yield the local folder for the outputs of a run.

    This is ``out`` itself, or a temporary folder if ``out`` is a url.

    The temporary folder is removed at the end. Errors of the block then name the url instead of it.

    Args:
        out: a folder, or the url of one that fsspec can write to, such as ``s3://bucket/prefix``.
        dry_run: nothing is written: yield an empty folder.

    Raises:
        ValueError: ``out`` is remote, but nothing can be written there.
        Busy: another run works in ``out``.
        StoreError: the store cannot be read, or the lock cannot be written.
    """
    url = remote_url(out)
    if url is None:
        yield local_folder(out)
        return
    with scratch("store") as parent:
        folder = parent / "out"
        folder.mkdir()
        try:
            if dry_run:
                yield folder
                return
            store = _active[folder] = Store(url, folder)
            try:
                with store:
                    yield folder
            finally:
                del _active[folder]
        except Exception as error:
            _replace_folder_by_url(error, folder, redact(url))
            raise


def store_of(folder: Path) -> Store | None:
    """Return the store of a working folder, or of a folder in one; None for any other."""
    for working, store in _active.items():
        if folder.is_relative_to(working):
            return store
    return None


def object_urls(urls: Iterable[Shard]) -> set[str]:
    """Return the urls that are remote, each spelled in one way. Raises SourceError."""
    spelled = set()
    for url in urls:
        if url.kind == "url":
            system, path = filesystem(url.exact)
            spelled.add(str(system.unstrip_protocol(path)))
    return spelled


def _replace_folder_by_url(error: Exception, folder: Path, url: str) -> None:
    """Replace the working folder by the url in an error.

    If the disk of that folder is full, the error is not changed.
    """
    if isinstance(error, OSError) and error.errno in _FULL:
        error.strerror = f"{error.strerror}: a run that writes to {url} works there; name a larger disk with TMPDIR"
        return

    def named(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return value.replace(str(folder), url.rstrip("/"))

    error.args = tuple(named(value) for value in error.args)
    if isinstance(error, OSError) and error.errno is not None:
        error.filename = named(error.filename)
        error.strerror = named(error.strerror)
