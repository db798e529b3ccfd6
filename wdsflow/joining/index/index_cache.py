"""Indexes of tables in a cache folder: made once on a machine, by one process while others wait."""

import json
import logging
import os
import re
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from pathlib import Path

from wdsflow.joining.join_on import JoinOn
from wdsflow.joining.table_files import TableFiles
from wdsflow.records.folder_lock import Lock, is_held
from wdsflow.shards.atomic import os_errors_named, scratch_folder, sync_folder
from wdsflow.text.words import how_many

from .row_index import FILE, DamagedIndex, RowIndex
from .write_row_index import write_row_index

# Of the files of an index.
_VERSION = 3
_LOCK = ".lock"
# In the cache folder, which may hold files of the user: nothing is removed outside of it.
_FOLDER = "wdsflow-joins"
# Indexes, and the scratch folders of those that are being made.
_INDEX_NAME = re.compile(r"([0-9a-f]{32})(\.[0-9a-f]{8}\.tmp)?")
# Seconds after which an index that no process has opened is removed.
_UNUSED = 30 * 24 * 3600.0
_log = logging.getLogger("wdsflow.training")


def default_cache() -> Path:
    """Return the folder of indexes: in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "wdsflow" / "joins"


def row_index(
    table: TableFiles, name: str, on: JoinOn, columns: Sequence[str], cache: Path
) -> RowIndex:
    """Return the index of a table, from the cache folder if it has that of the unchanged table.

    Args:
        table: its files.
        name: the table as the user named it, for the log.
        on: the value of the join.
        columns: those whose values samples get.
        cache: the folder, which is created if it does not exist.

    Raises:
        TableError: the table cannot be read, or lacks a column.
        OSError: the cache folder cannot be written.
    """
    folder = cache / _FOLDER / _key(table, on, columns)
    with os_errors_named(cache):
        folder.parent.mkdir(parents=True, exist_ok=True)
    index = _open(folder)
    if index is not None:
        return index
    if is_held(folder.with_suffix(_LOCK)):
        _log.info("join: another process indexes %s; waiting for it", name)
    with os_errors_named(cache), Lock(folder.with_suffix(_LOCK), patience=inf) as lock:
        # Another process may have made it meanwhile.
        index = _open(folder)
        if index is None:
            index = _make(folder, table, name, on, columns)
        lock.remove()
    return index


def _key(table: TableFiles, on: JoinOn, columns: Sequence[str]) -> str:
    """Return the name of an index: another one if the table, or what is read of it, changes."""
    from xxhash import xxh3_128_hexdigest

    facts = [_VERSION, table.kind, table.identity(), on.kind, on.column, list(columns)]
    return xxh3_128_hexdigest(json.dumps(facts).encode("utf-8", "surrogatepass"))


def _open(folder: Path) -> RowIndex | None:
    """Return an index, None if there is none or it is damaged; note that it is used."""
    with suppress(FileNotFoundError, DamagedIndex):
        index = RowIndex(folder)
        index.note_use()
        return index
    return None


def _make(
    folder: Path, table: TableFiles, name: str, on: JoinOn, columns: Sequence[str]
) -> RowIndex:
    started = time.perf_counter()
    _remove_unused(folder)
    scratch = folder.with_suffix(f".{os.urandom(4).hex()}.tmp")
    with scratch_folder(scratch):
        write_row_index(scratch / "index", table, name, on, columns, scratch)
        # A damaged one.
        if _open(folder) is None:
            shutil.rmtree(folder, ignore_errors=True)
        try:
            os.replace(scratch / "index", folder)
        except OSError:
            # On file systems without locks another process may have made it meanwhile.
            if _open(folder) is None:
                raise
    sync_folder(folder.parent)
    index = RowIndex(folder)
    seconds = time.perf_counter() - started
    _log.info("join: indexed %s of %s in %.1f s", how_many(index.rows, "row"), name, seconds)
    return index


def _remove_unused(folder: Path) -> None:
    """Remove what killed runs left, and indexes that have not been used for a month.

    ``folder``: of the index that is about to be made, whose lock is held.
    """
    oldest = time.time() - _UNUSED
    # Without locks nothing shows whether the process of a scratch folder still runs.
    locks_work = is_held(folder.with_suffix(_LOCK))
    for path in folder.parent.iterdir():
        match = _INDEX_NAME.fullmatch(path.name)
        if match is None or path == folder:
            continue
        lock = folder.with_name(match[1] + _LOCK)
        if match[1] != folder.name and is_held(lock):
            continue
        is_scratch = bool(match[2])
        with suppress(OSError):
            used = path if is_scratch else path / FILE
            if (is_scratch and locks_work) or used.stat().st_mtime < oldest:
                shutil.rmtree(path)
