"""Joins the Arrow files of the batches into few files with one schema.

At most one record batch is in memory.
"""

import logging
import os
from pathlib import Path

from wdsflow.text.shell import escape

from .column_kinds import Arrow, Features, holds_json, unified_features, widen_batch

log = logging.getLogger("wdsflow.mapping")
# Bytes of a file from which it stays as it is; smaller ones are joined, up to the second number.
_LARGE = 32 << 20
_FULL = 256 << 20


class ArrowParts:
    """Collects files in order, in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[Path] = []
        self._writer: Arrow = None
        self._schema: Arrow = None
        self._size = 0
        # The types of all rows so far.
        self._features: Features = None
        # A file without rows, whose types do not count.
        self._empty: Path | None = None

    def add(self, path: Path, rows: int) -> None:
        """Add the next file, which has ``rows`` rows.

        Raises KindError if its types do not fit those of the others.
        """
        import datasets
        import pyarrow

        if not rows:
            if self._empty is None:
                self._empty = self.folder / "no-rows.arrow"
                os.replace(path, self._empty)
            return
        size = path.stat().st_size
        with pyarrow.memory_map(str(path)) as source, pyarrow.ipc.open_stream(source) as reader:
            features = datasets.Features.from_arrow_schema(reader.schema)
            self._widen(features)
            if size < _LARGE:
                self._copy(reader, features)
                self._size += size
                return
        self._close()
        os.replace(path, self._new())

    def finish(self) -> None:
        """Close the current file. Afterwards there is at least one file if any was added."""
        self._close()
        if self._empty is not None:
            if self.files:
                self._empty.unlink()
            else:
                self.files.append(self._empty)

    def _widen(self, features: Features) -> None:
        """Widen the types to those of more rows. Raises KindError."""
        before = self._features
        if before is None:
            self._features = features
            return
        self._features = unified_features([before, features])
        for name, kind in self._features.items():
            if holds_json(kind) and not holds_json(before[name]):
                text = f"column {name!r} becomes Json: it is {before[name]} in some rows, {features[name]} in others"
                log.warning("%s", escape(text, 500))

    def _copy(self, reader: Arrow, features: Features) -> None:
        """Append the rows of a file to the current part.

        A new part begins if the current one is full or has other types.
        """
        import pyarrow

        schema = self._features.arrow_schema
        if self._writer is not None and (schema != self._schema or self._size >= _FULL):
            self._close()
        if self._writer is None:
            self._schema = schema
            self._size = 0
            self._writer = pyarrow.ipc.new_stream(str(self._new()), schema)
        for batch in reader:
            if batch.schema == schema:
                self._writer.write_batch(batch)
            else:
                self._writer.write_batch(widen_batch(batch, features, self._features))

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _new(self) -> Path:
        path = self.folder / f"rows-{len(self.files):06d}.arrow"
        self.files.append(path)
        return path
