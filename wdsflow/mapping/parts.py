"""Puts the Arrow files of the batches together: few files, one schema, never more than a record batch in memory."""

import logging
import os
from pathlib import Path
from typing import Any

from wdsflow.text.shell import escape

from .column_kinds import holds_json, unified, widened

log = logging.getLogger("wdsflow.mapping")

_OWN = 32 << 20  # bytes; a file of that size stays as it is, smaller ones are put together
_FULL = 256 << 20


class Parts:
    """Collects files in order. All of them are in ``folder`` at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[Path] = []
        self._writer: Any = None
        self._schema: Any = None
        self._size = 0
        self._wanted: Any = None  # the features of all rows so far
        self._empty: Path | None = None  # a file without a row; it says nothing of types

    def add(self, path: Path, rows: int) -> None:
        """Take over the next file, which has so many rows. Raises KindError if its types do not go with the others'."""
        import datasets
        import pyarrow

        if not rows:
            if self._empty is None:
                self._empty = self.folder / "no-rows.arrow"
                os.replace(path, self._empty)
            return
        size = path.stat().st_size
        with pyarrow.memory_map(str(path)) as source, pyarrow.ipc.open_stream(source) as reader:
            found = datasets.Features.from_arrow_schema(reader.schema)
            self._look(found)
            if size < _OWN:
                self._copy(reader, found)
                self._size += size
                return
        self._close()
        os.replace(path, self._new())

    def finish(self) -> None:
        """Close the file that is being written. There is one file at least, if any was added."""
        self._close()
        if self._empty is not None:
            if self.files:
                self._empty.unlink()
            else:
                self.files.append(self._empty)

    def _look(self, found: Any) -> None:
        before = self._wanted
        self._wanted = found if before is None else unified([before, found])
        for name, kind in self._wanted.items() if before is not None else ():
            if holds_json(kind) and not holds_json(before[name]):
                told = f"column {name!r} becomes Json: it is {before[name]} in some rows, {found[name]} in others"
                log.warning("%s", escape(told, 500))

    def _copy(self, reader: Any, found: Any) -> None:
        import pyarrow

        schema = self._wanted.arrow_schema
        if self._writer is not None and (schema != self._schema or self._size >= _FULL):
            self._close()
        if self._writer is None:
            self._schema, self._size = schema, 0
            self._writer = pyarrow.ipc.new_stream(str(self._new()), schema)
        for batch in reader:
            if batch.schema == schema:
                self._writer.write_batch(batch)
            else:
                self._writer.write_table(widened(pyarrow.Table.from_batches([batch]), found, self._wanted))

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _new(self) -> Path:
        self.files.append(self.folder / f"rows-{len(self.files):06d}.arrow")
        return self.files[-1]


def to_dataset(files: list[Path], like: Any) -> Any:
    """Return the Dataset that the files are, with the description, split and format of another.

    If a column has a narrower type in some files, as only nulls or only whole numbers were there, these are written
    again. Raises KindError if there is no type for all.
    """
    import datasets

    features = [datasets.Dataset.from_file(str(path)).features for path in files]
    wanted = unified(features)
    for path, found in zip(files, features, strict=True):
        if found.arrow_schema != wanted.arrow_schema:
            _cast(path, found, wanted)
    info = like.info.copy()
    info.features = wanted
    parts = [datasets.Dataset.from_file(str(path), info=info, split=like.split) for path in files]
    return _formatted(datasets.concatenate_datasets(parts) if len(parts) > 1 else parts[0], like)


def _cast(path: Path, kinds: Any, wanted: Any) -> None:
    import pyarrow

    wider = path.with_suffix(".wider")
    with (
        pyarrow.memory_map(str(path)) as source,
        pyarrow.ipc.open_stream(source) as reader,
        pyarrow.ipc.new_stream(str(wider), wanted.arrow_schema) as writer,
    ):
        for batch in reader:
            writer.write_table(widened(pyarrow.Table.from_batches([batch]), kinds, wanted))
    os.replace(wider, path)


def _formatted(dataset: Any, like: Any) -> Any:
    """Give a dataset the format of another; as with map, new columns are formatted if all were."""
    form = dict(like.format)
    columns = form.pop("columns")
    if set(columns) != set(like.column_names):
        plain = set(like.column_names) - set(columns)
        form["columns"] = [name for name in dataset.column_names if name not in plain]
    elif not form["type"]:
        return dataset
    return dataset.with_format(form.pop("type"), **form.pop("format_kwargs"), **form)
