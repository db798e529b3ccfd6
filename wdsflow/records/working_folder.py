"""The local folder in which a run works: its output folder, or a temporary one for the url of an object store."""

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

from .store import Store

_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
_active: dict[Path, Store] = {}


def remote_url(out: str | os.PathLike[str]) -> str | None:
    """Return the url of an output folder in an object store, None for a local folder."""
    return (
        out
        if isinstance(out, str) and local_path(out) is None and not re.match("(https?|pipe):", out)
        else None
    )


@contextmanager
def working_folder(out: str | os.PathLike[str], *, dry_run: bool = False) -> Iterator[Path]:
    """Yield the local folder for the outputs of a run: ``out`` itself, or a temporary one if ``out`` is a url.

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
            _name_url(error, folder, redact(url))
            raise


def store_of(folder: Path) -> Store | None:
    """Return the store of a working folder, or of a folder in one; None for any other."""
    return next((store for place, store in _active.items() if folder.is_relative_to(place)), None)


def objects(urls: Iterable[Shard]) -> set[str]:
    """Return the urls that are remote, each spelled in one way. Raises SourceError."""
    found = (filesystem(url.exact) for url in urls if url.kind == "url")
    return {str(system.unstrip_protocol(path)) for system, path in found}


def _name_url(error: Exception, folder: Path, url: str) -> None:
    """Put the url in place of the working folder into an error, unless the disk of that folder is full."""
    if isinstance(error, OSError) and error.errno in _FULL:
        error.strerror = f"{error.strerror}: a run that writes to {url} works there; name a larger disk with TMPDIR"
        return

    def named(value: Any) -> Any:
        return value.replace(str(folder), url.rstrip("/")) if isinstance(value, str) else value

    error.args = tuple(map(named, error.args))
    if isinstance(error, OSError) and error.errno is not None:
        error.filename, error.strerror = named(error.filename), named(error.strerror)
