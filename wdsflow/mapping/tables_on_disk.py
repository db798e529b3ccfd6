"""A Dataset with its tables in files, so that workers open them instead of copies."""

import contextlib
import ctypes
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from .column_kinds import Arrow, Dataset

# Bytes of a table that travels to workers.
_SMALL = 1 << 20
# Rows that are written at once.
_ROWS = 1000
# MADV_DONTNEED of Linux.
_DONT_NEED = 4


@contextlib.contextmanager
def on_disk(dataset: Dataset, folder: Path) -> Iterator[Dataset]:
    """Yield the dataset with its tables in files, so that workers need no copies of it.

    Tables in memory are written into ``folder``, until the context ends.
    """
    import datasets

    tables = Path(tempfile.mkdtemp(prefix="given-", dir=folder))
    try:
        form = dict(dataset.format)
        indices = dataset._indices  # noqa: SLF001
        stored = datasets.Dataset(
            _stored(dataset.data, tables),
            info=dataset.info,
            split=dataset.split,
            indices_table=None if indices is None else _stored(indices, tables),
        )
        release_pages([file["filename"] for file in dataset.cache_files])
        yield stored.with_format(
            form["type"], form["columns"], form["output_all_columns"], **form["format_kwargs"]
        )
    finally:
        shutil.rmtree(tables, ignore_errors=True)


def release_pages(files: Collection[str]) -> None:
    """Release the pages of files that this process has mapped for reading, on Linux."""
    if not sys.platform.startswith("linux"):
        return
    paths = {os.path.realpath(file) for file in files}
    with contextlib.suppress(OSError, AttributeError, ValueError):
        advise = ctypes.CDLL(None, use_errno=True).madvise
        advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for line in Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines():
            # The path is the last field, if there is one.
            addresses, rights, *_, path = line.split(maxsplit=5)
            # Read-only pages equal the file.
            if rights.startswith("r-") and path in paths:
                start, end = (int(address, 16) for address in addresses.split("-"))
                advise(start, end - start, _DONT_NEED)


def _stored(table: Arrow, folder: Path) -> Arrow:
    """Return a table whose large parts in memory are in files of a folder."""
    import pyarrow
    from datasets.table import ConcatenationTable, InMemoryTable, MemoryMappedTable

    if isinstance(table, ConcatenationTable):
        blocks = [[_stored(block, folder) for block in row] for row in table.blocks]
        return ConcatenationTable.from_blocks(blocks)
    if not isinstance(table, InMemoryTable) or table.nbytes < _SMALL:
        return table
    path = folder / f"{len(list(folder.iterdir()))}.arrow"
    with pyarrow.ipc.new_stream(str(path), table.schema) as writer:
        for batch in table.to_batches(_ROWS):
            writer.write_batch(batch)
    return MemoryMappedTable.from_file(str(path))
