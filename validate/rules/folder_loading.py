"""What ``load_dataset`` of Hugging Face makes of the folder of the shards."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from wdsflow.readers.datasets_folder import chosen_splits, names_data_files, visible_files
from wdsflow.records.load_dataset import load_call
from wdsflow.shards.shard_names import SUFFIXES
from wdsflow.shards.source.base import local_path
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from ..finding import Finding
from .kit.base import Context, Rule

# Files of a folder.
_NAMED = 3


class OtherFilesLoaded(Rule):
    """A folder that Hugging Face load_dataset does not load as it is.

    What: the folder has files besides the shards. ``load_dataset("FOLDER")`` loads the files with
    the most frequent extension, and with ``train``, ``val`` or ``test`` in some names only files
    with such names. ``load_dataset("webdataset", data_dir="FOLDER")`` takes every file for a tar.

    Why it matters: a single shard next to ``sizes.json`` is loaded as one row of a table, without
    an error: with as many of both, json and parquet come before tar. With ``data_dir=`` the load
    ends with an exception at the first other file, such as ``sizes.json`` or ``__len__``, which
    OpenCLIP needs. Hidden files and folders are passed over.

    In practice: the folder of one shard that ``wdsflow filter`` or img2dataset wrote; a parquet
    file for each shard, as img2dataset writes; shards in ``train/`` and ``extra/``, of which only
    the first are loaded.

    Fix: name the shards: ``load_dataset("webdataset", data_files="FOLDER/*.tar")``.
    """

    code = "P333"

    def check(self, context: Context) -> Iterator[Finding]:
        names = [reader.name for reader in context.readers if reader.loads_folders]
        if not names:
            return
        for url in context.urls:
            path = local_path(url)
            if path is None or not os.path.isdir(path):
                continue
            files = visible_files(Path(path))
            shards = [name for name in files if name.lower().endswith(SUFFIXES)]
            others = [name for name in files if name not in set(shards)]
            call = load_call(path, shards)
            if trouble := _wrong_choice(Path(path), files, shards):
                message = f'load_dataset("{escape(path)}") {trouble}'
                yield self.finding(
                    f"{message}; this loads the shards: {escape(call, 500)}",
                    names,
                    count=len(shards),
                )
            elif others:
                message = f'load_dataset("webdataset", data_dir="{escape(path)}") ends at {_some(others)}: not tars'
                yield self.finding(
                    f"{message}; this works: {escape(call, 500)}", names, severity="info"
                )


def _wrong_choice(folder: Path, files: Sequence[str], shards: Sequence[str]) -> str:
    """Return what ``load_dataset(FOLDER)`` loads instead of all shards, "" if it loads them."""
    if not shards or names_data_files(folder):
        return ""
    splits = chosen_splits(files)
    for split in splits.values():
        if split.extension != ".tar":
            chosen = [name for name in split.files if name.lower().endswith(split.extension)]
            return f"loads {_some(chosen)}" if split.extension else "finds no format that it knows"
    loaded = {name for split in splits.values() for name in split.files}
    missing = [name for name in shards if name not in loaded]
    if missing:
        return f"leaves out {how_many(len(missing), 'shard')}, whose names have no split: {_some(missing)}"
    return ""


def _some(names: Sequence[str]) -> str:
    """Return the first names as text."""
    more = len(names) - _NAMED
    listed = ", ".join(escape(name, 60) for name in names[:_NAMED])
    return f"{listed} and {more:,} more" if more > 0 else listed
