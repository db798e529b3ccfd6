"""Columns of a table that show whether keys still mean the samples of its rows."""

from .table_files import TableFiles

CHECKED = ("url", "sha256")
# Of a ledger: the hash of the image.
CHECKED_IMAGE = "image_xxh3"


def checked_columns(table: TableFiles) -> tuple[str, ...]:
    """Return the columns that are compared, if the table has them."""
    return (CHECKED_IMAGE,) if table.kind == "ledger" else CHECKED
