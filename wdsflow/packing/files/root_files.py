"""The files of an input: those of its folder, of another one, of a zip, or of an object store."""

import os
from pathlib import Path

from wdsflow.shards.shard import Shard
from wdsflow.table_files.errors import TableError

from .local_files import LocalFiles
from .media_files import MediaFiles
from .remote_files import RemoteFiles


def files_below(root: Shard, *, needs_sizes: bool) -> MediaFiles:
    """Return the files below a folder, in a zip, or below a url.

    ``needs_sizes``: whether shards are limited in bytes. Raises TableError if there is no such
    folder, ValueError if sizes are needed and cannot be known.
    """
    path = root.path
    if path is None:
        if needs_sizes:
            raise ValueError(
                f"--size needs the sizes of files, and those in {root} are not known: give --samples"
            )
        return RemoteFiles(root)
    if path.lower().endswith(".zip") and os.path.isfile(path):
        return files_in_zip(path)
    if not os.path.isdir(path):
        raise TableError(f"there is no folder {root}; --root names the folder that holds all files")
    return LocalFiles(path)


def files_in_zip(path: str | Path) -> MediaFiles:
    """Return the files in a zip on this machine. Raises SourceError."""
    from .zip_files import ZipFiles

    return ZipFiles(str(path))
