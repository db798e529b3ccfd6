"""The rows of a table, planned as samples: keys, captions, json, and the files of cells."""

from dataclasses import replace

from wdsflow.table_files.errors import NoColumn, TableError

from ..files.media_files import FileRef, MediaFiles
from ..files.stored_bytes import StoredBytes
from ..pack_options import PackRequest
from ..unusable import Unusable
from .keys import key_from
from .layouts import TableLayout, TableRow, layout_of
from .stored_rows import File, PlannedRow
from .table import Table

# Characters; longer ones are no files, and are not kept.
_LONGEST_PATH = 4096


def table_layout(table: Table, request: PackRequest) -> TableLayout:
    """Return the roles of a table's columns.

    Raises TableError if it has no rows, NoColumn, WhichColumn.
    """
    columns = table.columns()
    if not columns:
        raise TableError(f"{table.named} has no rows")
    layout = layout_of(
        columns,
        table.bytes_columns(),
        table.named,
        image=request.image,
        caption=request.caption,
        token=request.image_token,
        text=table.text_file,
    )
    if request.key is not None and columns.count(request.key) != 1:
        raise NoColumn(table.named, request.key, columns, table.text_file)
    return replace(layout, has_bytes=table.kind == "parquet")


class TableRows:
    """Plans the rows of a table as samples.

    Args:
        source: the number of the table.
        layout: what its columns mean.
        files: those that paths in cells name.
        stored: takes the bytes in cells.
        key_column: the column of keys; None for none.

    Attributes:
        changed_keys: keys that are not those of the table, as they are not safe for all readers.
        first_changed: the first of them, as a text for the report.
    """

    def __init__(
        self,
        source: int,
        layout: TableLayout,
        files: MediaFiles,
        stored: StoredBytes,
        key_column: str | None,
    ) -> None:
        self._source = source
        self._layout = layout
        self._files = files
        self._stored = stored
        self._key_column = key_column
        self.changed_keys = 0
        self.first_changed = ""

    def plan_row(self, number: int, row: TableRow, default_key: str) -> PlannedRow:
        """Return a row, of a number from 1 on, as a sample. Raises Unusable."""
        key = default_key
        if self._key_column is not None:
            key = self._key(number, row, self._key_column)
        media = self._layout.files(row)
        texts = self._texts(row)
        files: list[File] = []
        for column, file in media:
            files.append(("", column, self._find(column, file)))
        return PlannedRow(self._source, number, key, files, texts)

    def _key(self, number: int, row: TableRow, column: str) -> str:
        value = row.get(column)
        key = key_from(value, column)
        if key not in (value, str(value)):
            self.changed_keys += 1
            if not self.first_changed:
                self.first_changed = (
                    f"row {number:,}, column {column}: {value!r:.100} is {key!r:.100}"
                )
        return key

    def _texts(self, row: TableRow) -> list[tuple[str, bytes]]:
        texts: list[tuple[str, bytes]] = []
        caption = self._layout.caption_of(row)
        if caption is not None:
            texts.append(("txt", caption))
        facts = self._layout.json(row)
        if facts:
            texts.append(("json", facts))
        return texts

    def _find(self, column: str, file: str | bytes) -> FileRef:
        """Return the file of a path, or of bytes, in a column. Raises Unusable."""
        try:
            if isinstance(file, bytes):
                return self._stored.add(file)
            return self._files.find(file)
        except Unusable as error:
            value = file if isinstance(file, str) and len(file) <= _LONGEST_PATH else ""
            raise Unusable(error.reason, error.detail, column, value) from None
